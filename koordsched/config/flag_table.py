"""Every flag of koord-scheduler v1.8.0: kube-scheduler 1.35's (framework.md §1.5) and Koordinator's (frameworkext.md §1.2); and our own.

The Struct is the table: a field is a flag (`leader_elect` is --leader-elect), its annotation is the flag's type, its value the default.
Types are pflag's: a tuple is a comma-separated list, of which the first use replaces the default and later uses append. Callers: `flags`
parses by it; code that acts on a flag reads its field.
"""

from __future__ import annotations

import msgspec

from koordsched.api.meta import Int32
from koordsched.config.duration import Duration
from koordsched.config.features import DEFAULT_GATES, FeatureGates


class Flags(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The values of all flags."""

    # What to run
    config: str = ""  # file of the configuration
    write_config_to: str = ""  # write the effective configuration there and exit
    master: str = ""  # address of the API server, over the kubeconfig's
    help: bool = False
    version: str = "false"  # "true" or "raw": print it and exit

    # Secure serving
    bind_address: str = "0.0.0.0"  # noqa: S104 (the reference's default)
    secure_port: int = 10259  # 0: off
    cert_dir: str = ""
    tls_cert_file: str = ""  # without one a self-signed pair is made in memory
    tls_private_key_file: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    tls_min_version: str = ""
    tls_sni_cert_key: tuple[str, ...] = ()  # "cert,key" or "cert,key:names", one a use
    disable_http2_serving: bool = False
    http2_max_streams_per_connection: int = 0
    permit_address_sharing: bool = False
    permit_port_sharing: bool = False

    # Plain serving
    port: int = 10251  # without authentication; 0: off
    address: str = "0.0.0.0"  # noqa: S104 (the reference's default)

    # Authentication
    authentication_kubeconfig: str = ""
    authentication_skip_lookup: bool = False
    authentication_token_webhook_cache_ttl: Duration = Duration(10)
    authentication_tolerate_lookup_failure: bool = True
    client_ca_file: str = ""
    requestheader_allowed_names: tuple[str, ...] = ()
    requestheader_client_ca_file: str = ""
    requestheader_extra_headers_prefix: tuple[str, ...] = ("x-remote-extra-",)
    requestheader_group_headers: tuple[str, ...] = ("x-remote-group",)
    requestheader_uid_headers: tuple[str, ...] = ()
    requestheader_username_headers: tuple[str, ...] = ("x-remote-user",)

    # Authorization
    authorization_always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    authorization_kubeconfig: str = ""
    authorization_webhook_cache_authorized_ttl: Duration = Duration(10)
    authorization_webhook_cache_unauthorized_ttl: Duration = Duration(10)

    # Ignored with --config
    kubeconfig: str = ""
    kube_api_burst: Int32 = 100
    kube_api_content_type: str = "application/vnd.kubernetes.protobuf"
    kube_api_qps: float = 50.0
    profiling: bool = True
    contention_profiling: bool = True

    pod_max_in_unschedulable_pods_duration: Duration = Duration(300)

    # Leader election: over the configuration's values
    leader_elect: bool = True
    leader_elect_lease_duration: Duration = Duration(15)
    leader_elect_renew_deadline: Duration = Duration(10)
    leader_elect_retry_period: Duration = Duration(2)
    leader_elect_resource_lock: str = "leases"
    leader_elect_resource_name: str = "kube-scheduler"
    leader_elect_resource_namespace: str = "kube-system"

    # Features and versions
    feature_gates: tuple[str, ...] = ()  # as given; `gates` is what they mean
    emulated_version: tuple[str, ...] = ()
    min_compatibility_version: tuple[str, ...] = ()

    # Metrics
    allow_metric_labels: dict[str, str] = {}
    allow_metric_labels_manifest: str = ""
    disabled_metrics: tuple[str, ...] = ()
    show_hidden_metrics_for_version: str = ""

    # Logs
    log_flush_frequency: Duration = Duration(5)
    log_json_info_buffer_size: str = "0"  # a quantity of bytes
    log_json_split_stream: bool = False
    log_text_info_buffer_size: str = "0"  # a quantity of bytes
    log_text_split_stream: bool = False
    logging_format: str = "text"
    v: int = 0
    vmodule: str = ""  # pattern=N,...
    async_log: bool = False
    async_log_queue_length: int = 10000

    # Debugging
    debug_scores: int = 0  # log the scores of that many best nodes
    debug_filters: bool = False
    debug_diagnosis: bool = False
    debug_diagnosis_blocking: bool = False
    debug_diagnosis_queue_size: int = 1000
    debug_diagnosis_worker_count: int = 10

    # Koordinator's controllers and monitor
    controller_plugins: tuple[str, ...] = ("*",)
    enable_network_topology_manager: bool = False
    scheduler_monitor_period: Duration = Duration(10)  # not above 0: no look
    scheduling_timeout: Duration = Duration(30)
    scheduling_drop_unhandled_timeout: Duration = Duration(5)

    # Sync barrier (feature gate SyncBarrier)
    sync_barrier_pod_namespace: str = "kube-system"
    sync_barrier_pod_name: str = "koord-scheduler-sync-barrier"  # empty: none
    sync_hard_timeout: Duration = Duration(60)

    # Our own
    cache_check_interval: Duration = Duration(60)  # between two turns of the standing check; 0: none

    # No flags: what the parser adds
    given: frozenset[str] = frozenset()  # names of the flags that were given, without dashes
    gates: FeatureGates = DEFAULT_GATES


SHORT = {"h": "help", "v": "v", "s": "debug-scores", "f": "debug-filters", "d": "debug-diagnosis"}

UNSPLIT = frozenset({"feature-gates", "tls-sni-cert-key"})
"""Lists whose items may hold commas: every use is one item."""

KOORDINATORS = "the part of Koordinator that it is for is not there yet"
NOT_ACTED_ON = {
    "emulated-version": "there is one version of every behaviour, Kubernetes 1.35's",
    "http2-max-streams-per-connection": "HTTP/1.1 is served",
    "log-flush-frequency": "lines are written as they come",
    "log-json-info-buffer-size": "lines are written as they come",
    "log-json-split-stream": "all lines go to stderr",
    "log-text-info-buffer-size": "lines are written as they come",
    "log-text-split-stream": "all lines go to stderr",
    "min-compatibility-version": "there is one version of every behaviour, Kubernetes 1.35's",
    "scheduling-drop-unhandled-timeout": "a pod's cycle begins when it is taken from the queue, so there is none that is not handled",
    "show-hidden-metrics-for-version": "no metric is hidden",
    "vmodule": "messages have two levels: those of -v=0 and, from -v=4 on, all",
}
"""Flags that are understood and checked but change nothing, and why; start-up logs those that were given."""
