"""What `koord-scheduler --help` says of every flag, by the topics in which kube-scheduler groups them.

Types and defaults come from `flag_table`, what changes nothing from its NOT_ACTED_ON. Caller: the command line, for --help only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

from koordsched.config.duration import Duration
from koordsched.config.flag_table import NOT_ACTED_ON, SHORT, Flags
from koordsched.config.flag_values import written
from koordsched.config.flags import FLAGS

TOPICS: dict[str, dict[str, str]] = {
    "What to run": {
        "config": "file of the KubeSchedulerConfiguration; without one the default plugins of Kubernetes run",
        "write-config-to": "write the effective configuration to this file and exit",
        "master": "address of the API server, in the place of the kubeconfig's",
        "help": "print this and exit",
        "version": "print the version and exit",
    },
    "Leader election, over the configuration's values": {
        "leader-elect": "schedule only while holding the lease",
        "leader-elect-lease-duration": "how long others wait for a leader that is silent",
        "leader-elect-renew-deadline": "how long a leader tries to renew the lease before it gives up",
        "leader-elect-resource-lock": "kind of the lock; there is only this one",
        "leader-elect-resource-name": "name of the Lease",
        "leader-elect-resource-namespace": "namespace of the Lease",
        "leader-elect-retry-period": "time between two tries to get or renew the lease",
    },
    "Secure serving": {
        "bind-address": "address of the HTTPS port",
        "secure-port": "HTTPS port, with authentication and authorization; 0: none",
        "cert-dir": "directory of the certificate, unless its files are named",
        "tls-cert-file": "certificate, followed by its CAs; without one a self-signed one is made",
        "tls-private-key-file": "key of the certificate",
        "tls-cipher-suites": "suites to offer",
        "tls-min-version": "oldest version to accept: VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13",
        "tls-sni-cert-key": "CERT,KEY or CERT,KEY:NAMES for clients that ask for other names; may be repeated",
        "disable-http2-serving": "do not serve HTTP/2",
        "http2-max-streams-per-connection": "limit of streams",
        "permit-address-sharing": "listen with SO_REUSEADDR",
        "permit-port-sharing": "listen with SO_REUSEPORT",
    },
    "Plain serving": {
        "port": "HTTP port, without authentication; 0: none",
        "address": "address of the HTTP port",
    },
    "Authentication and authorization": {
        "authentication-kubeconfig": "kubeconfig of the cluster that reviews tokens; without one its requests are anonymous",
        "authentication-skip-lookup": "do not look up client CAs in the cluster",
        "authentication-token-webhook-cache-ttl": "how long an answer about a token holds",
        "authentication-tolerate-lookup-failure": "start even if the client CAs cannot be looked up",
        "client-ca-file": "CAs of clients; the common name of a certificate is the user",
        "requestheader-allowed-names": "common names of front proxies; empty: any that the CA has signed",
        "requestheader-client-ca-file": "CAs of front proxies",
        "requestheader-extra-headers-prefix": "prefixes of a front proxy's headers with what else is known of the user",
        "requestheader-group-headers": "a front proxy's headers with the user's groups",
        "requestheader-uid-headers": "a front proxy's headers with the user's uid",
        "requestheader-username-headers": "a front proxy's headers with the user's name",
        "authorization-always-allow-paths": "paths that every client may ask for; a trailing * stands for any end",
        "authorization-kubeconfig": "kubeconfig of the cluster that reviews access; without one everything else is forbidden",
        "authorization-webhook-cache-authorized-ttl": "how long a yes holds",
        "authorization-webhook-cache-unauthorized-ttl": "how long a no holds",
    },
    "Ignored with --config, which has them": {
        "kubeconfig": "credentials and address of the cluster; without one those of the pod that this runs in",
        "kube-api-burst": "requests that may go beyond --kube-api-qps at once",
        "kube-api-content-type": "encoding of requests",
        "kube-api-qps": "requests a second; negative: any number",
        "profiling": "serve /debug",
        "contention-profiling": "profile locks too",
    },
    "Scheduling": {
        "pod-max-in-unschedulable-pods-duration": "after this time a pod that nothing has helped is tried all the same",
    },
    "Features and versions": {
        "feature-gates": "GATE=true|false, with commas between them; may be repeated",
        "emulated-version": "version of Kubernetes whose behaviour is wanted",
        "min-compatibility-version": "oldest version of the control plane",
    },
    "Metrics": {
        "allow-metric-labels": "METRIC,LABEL=VALUE,VALUE...: the only values that the label shows",
        "allow-metric-labels-manifest": "YAML file of the same, if the flag is not given",
        "disabled-metrics": "metrics not to show",
        "show-hidden-metrics-for-version": "show metrics that this version hides",
    },
    "Logs": {
        "v": "verbosity: 1 adds the flags, 2 the configuration, 4 all messages",
        "vmodule": "PATTERN=N, with commas between them: verbosity by file",
        "logging-format": "text or json",
        "log-flush-frequency": "longest time between writes",
        "log-json-info-buffer-size": "bytes that may wait",
        "log-json-split-stream": "write messages that are no errors to stdout",
        "log-text-info-buffer-size": "bytes that may wait",
        "log-text-split-stream": "write messages that are no errors to stdout",
        "async-log": "write logs behind a queue",
        "async-log-queue-length": "length of that queue",
    },
    "Koordinator": {
        "controller-plugins": "controllers to run: *, NAME or -NAME",
        "debug-diagnosis": "log why a pod found no node, as JSON",
        "debug-diagnosis-blocking": "... before the next pod is scheduled",
        "debug-diagnosis-queue-size": "pods that may wait for it",
        "debug-diagnosis-worker-count": "of them written at once",
        "debug-filters": "log each node that a filter refuses",
        "debug-scores": "log the scores of that many best nodes",
        "enable-network-topology-manager": "read the ClusterNetworkTopology, by which gangs are placed, and write its status",
        "scheduler-monitor-period": "time between two looks for slow pods",
        "scheduling-timeout": "a pod that takes longer is slow",
        "scheduling-drop-unhandled-timeout": "when to forget a pod that was taken from the queue and not tried",
        "sync-barrier-pod-name": "pod that a new leader marks to know that its caches are up to date",
        "sync-barrier-pod-namespace": "that pod's namespace",
        "sync-hard-timeout": "how long a new leader waits for it",
    },
    "Only here": {
        "cache-check-interval": "time after which the next tenth of the cache is compared with the cluster and mended; 0: never",
    },
}
KINDS: dict[Any, str] = {bool: "", int: " N", float: " NUMBER", str: " TEXT", Duration: " TIME", tuple: " LIST", dict: " MAP"}
NOTHING: tuple[Any, ...] = (False, "", "0", "false", (), {})
"""Defaults that go without saying."""
WIDTH = 56


def flags_help() -> str:
    """Return one line for every flag, by topic."""
    return "".join(f"\n{topic}:\n" + "".join(_lines(flags)) for topic, flags in TOPICS.items())


def _lines(flags: dict[str, str]) -> Iterator[str]:
    for name, meaning in flags.items():
        short = next((f"-{letter}, " for letter, long in SHORT.items() if long == name), "    ")
        default, nothing = _default(name), " [has no effect]" if name in NOT_ACTED_ON else ""
        yield f"  {f'{short}--{name}{_kind(name)}':{WIDTH}} {meaning}{default}{nothing}\n"


def _kind(name: str) -> str:
    if name == "version":
        return "[=raw]"
    kind = FLAGS[name].type
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return KINDS[get_origin(kind) or kind]


def _default(name: str) -> str:
    value = getattr(Flags(), FLAGS[name].name)
    if value in NOTHING:
        return ""
    return f" (default {written(value)})"
