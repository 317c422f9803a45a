"""Command lines: pflag's syntax, all flags of koord-scheduler v1.8.0 with their defaults, and what they do to the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from koordsched.config import ConfigError, Flags, effective_config
from koordsched.config.duration import Duration
from koordsched.config.flag_table import NOT_ACTED_ON, SHORT
from koordsched.config.flags import FLAGS, FlagError, not_acted_on, parse_flags

KUBE_SCHEDULER_FLAGS = """
allow-metric-labels allow-metric-labels-manifest authentication-kubeconfig authentication-skip-lookup
authentication-token-webhook-cache-ttl authentication-tolerate-lookup-failure authorization-always-allow-paths
authorization-kubeconfig authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl bind-address cert-dir
client-ca-file config contention-profiling disable-http2-serving disabled-metrics emulated-version feature-gates help
http2-max-streams-per-connection kube-api-burst kube-api-content-type kube-api-qps kubeconfig leader-elect
leader-elect-lease-duration leader-elect-renew-deadline leader-elect-resource-lock leader-elect-resource-name
leader-elect-resource-namespace leader-elect-retry-period log-flush-frequency
log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size log-text-split-stream
logging-format master min-compatibility-version permit-address-sharing permit-port-sharing pod-max-in-unschedulable-pods-duration
profiling requestheader-allowed-names requestheader-client-ca-file requestheader-extra-headers-prefix requestheader-group-headers
requestheader-uid-headers requestheader-username-headers secure-port show-hidden-metrics-for-version tls-cert-file
tls-cipher-suites tls-min-version tls-private-key-file tls-sni-cert-key v version vmodule write-config-to
"""
KOORDINATOR_FLAGS = """
address async-log async-log-queue-length controller-plugins debug-diagnosis debug-diagnosis-blocking debug-diagnosis-queue-size
debug-diagnosis-worker-count debug-filters debug-scores enable-network-topology-manager port scheduler-monitor-period
scheduling-drop-unhandled-timeout scheduling-timeout sync-barrier-pod-name sync-barrier-pod-namespace sync-hard-timeout
"""

OWN_FLAGS = "cache-check-interval"

LOGGING_ALPHA = "--feature-gates=LoggingAlphaOptions=true"


def errors(*arguments: str) -> tuple[str, ...]:
    with pytest.raises(FlagError) as refused:
        parse_flags(arguments)
    return refused.value.errors


def test_the_table_has_exactly_the_flags_of_koord_scheduler_and_our_own() -> None:
    assert set(FLAGS) == {*KUBE_SCHEDULER_FLAGS.split(), *KOORDINATOR_FLAGS.split(), *OWN_FLAGS.split()}
    assert SHORT == {"h": "help", "v": "v", "s": "debug-scores", "f": "debug-filters", "d": "debug-diagnosis"}


def test_no_flags_mean_the_defaults() -> None:
    assert parse_flags([]) == Flags()


def test_the_arguments_of_the_charts_container_are_understood() -> None:
    line = "--port=10251 --authentication-skip-lookup=true --v=4 --feature-gates= --config=/config/koord-scheduler.config"
    flags = parse_flags([*line.split(), "--enable-network-topology-manager=true"])
    assert (flags.port, flags.authentication_skip_lookup, flags.v) == (10251, True, 4)
    assert (flags.config, flags.enable_network_topology_manager) == ("/config/koord-scheduler.config", True)
    assert flags.given == {"port", "authentication-skip-lookup", "v", "feature-gates", "config", "enable-network-topology-manager"}


@pytest.mark.parametrize(
    ("arguments", "attribute", "value"),
    [
        (["--config=a=b"], "config", "a=b"),
        (["--config", "-x"], "config", "-x"),
        (["--config="], "config", ""),
        (["--config=a", "--config=b"], "config", "b"),
        (["--leader_elect=false"], "leader_elect", False),
        (["--leader-elect"], "leader_elect", True),
        (["--leader-elect=F"], "leader_elect", False),
        (["-v=4"], "v", 4),
        (["-v", "4"], "v", 4),
        (["-v4"], "v", 4),
        (["-s=3"], "debug_scores", 3),
        (["-fd"], "debug_diagnosis", True),
        (["-f=false"], "debug_filters", False),
        (["-fs5"], "debug_scores", 5),
        (["--secure-port=0x10"], "secure_port", 16),
        (["--secure-port=010"], "secure_port", 8),
        (["--secure-port=0X1F"], "secure_port", 31),
        (["--kube-api-qps=-1.5"], "kube_api_qps", -1.5),
        (["--scheduling-timeout=1m30s"], "scheduling_timeout", 90),
        (["--bind-address=::1"], "bind_address", "::1"),
        (["--bind-address="], "bind_address", "0.0.0.0"),
        (["--controller-plugins=*,-Reservation"], "controller_plugins", ("*", "-Reservation")),
        (["--disabled-metrics=a,b", "--disabled-metrics=c"], "disabled_metrics", ("a", "b", "c")),
        (["--requestheader-group-headers="], "requestheader_group_headers", ()),
        (['--tls-sni-cert-key=c,k:"a"', "--tls-sni-cert-key=d,l"], "tls_sni_cert_key", ('c,k:"a"', "d,l")),
        (["--allow-metric-labels=m,l=a,b"], "allow_metric_labels", {"m,l": "a,b"}),
        (
            ["--allow-metric-labels=m,l=a", '--allow-metric-labels="n,l=b","o,l=c,d"'],
            "allow_metric_labels",
            {"m,l": "a", "n,l": "b", "o,l": "c,d"},
        ),
        (["--log-text-info-buffer-size=4Ki", LOGGING_ALPHA], "log_text_info_buffer_size", "4Ki"),
        (["--log-json-split-stream", LOGGING_ALPHA], "log_json_split_stream", True),
        (["--emulated-version=1.34", "--min-compatibility-version=kube=1.33"], "emulated_version", ("1.34",)),
        (["--vmodule=a=1,b*=2"], "vmodule", "a=1,b*=2"),
        (["--version"], "version", "true"),
        (["--version=raw"], "version", "raw"),
        (["--version=1"], "version", "true"),
        (["--version=F"], "version", "false"),
        (["-h"], "help", True),
        (["--config=a", "--", ""], "config", "a"),
    ],
)
def test_a_value_may_be_written_in_all_the_ways_of_pflag(arguments: list[str], attribute: str, value: object) -> None:
    assert getattr(parse_flags(arguments), attribute) == value


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--nope"], "unknown flag: --nope"),
        (["--leader-elct"], 'unknown flag: --leader-elct, did you mean "--leader-elect"?'),
        (["-x"], "unknown shorthand flag: 'x' in -x"),
        (["-fx"], "unknown shorthand flag: 'x' in -x"),
        (["--config"], "flag needs an argument: --config"),
        (["-s"], "flag needs an argument: 's' in -s"),
        (["--=x"], "bad flag syntax: --=x"),
        (["---x"], "bad flag syntax: ---x"),
        (["pos"], '"koord-scheduler" does not take any arguments, got ["pos"]'),
        (["--leader-elect", "false"], '"koord-scheduler" does not take any arguments, got ["false"]'),
        (["a", "--", "--config", 'b"'], '"koord-scheduler" does not take any arguments, got ["a" "--config" "b\\""]'),
        (["--port=x"], 'invalid argument "x" for "--port" flag: strconv.ParseInt: parsing "x": invalid syntax'),
        (["--port=08"], 'invalid argument "08" for "--port" flag: strconv.ParseInt: parsing "08": invalid syntax'),
        (["-s", "x"], 'invalid argument "x" for "-s, --debug-scores" flag: strconv.ParseInt: parsing "x": invalid syntax'),
        (
            ["--kube-api-burst=2147483648"],
            'invalid argument "2147483648" for "--kube-api-burst" flag: strconv.ParseInt: parsing "2147483648": value out of range',
        ),
        (["--v=-1"], 'invalid argument "-1" for "-v, --v" flag: strconv.ParseUint: parsing "-1": invalid syntax'),
        (["--leader-elect=yes"], 'invalid argument "yes" for "--leader-elect" flag: strconv.ParseBool: parsing "yes": invalid syntax'),
        (["--kube-api-qps=z"], 'invalid argument "z" for "--kube-api-qps" flag: strconv.ParseFloat: parsing "z": invalid syntax'),
        (
            ["--kube-api-qps=1e50"],
            'invalid argument "1e50" for "--kube-api-qps" flag: strconv.ParseFloat: parsing "1e50": value out of range',
        ),
        (["--scheduling-timeout=5"], 'invalid argument "5" for "--scheduling-timeout" flag: time: missing unit in duration "5"'),
        (["--bind-address=zz"], 'invalid argument "zz" for "--bind-address" flag: failed to parse IP: "zz"'),
        (["--allow-metric-labels=abc"], 'invalid argument "abc" for "--allow-metric-labels" flag: abc must be formatted as key=value'),
        (["--vmodule=a"], 'invalid argument "a" for "--vmodule" flag: "a" does not have the pattern=N format'),
        (["--port=65536"], "--port 65536 must be between 0 and 65535, inclusive. 0 for turning off insecure (HTTP) port"),
        (["--secure-port=-4"], "--secure-port -4 must be between 0 and 65535, inclusive. 0 for turning off secure port"),
        (["--address=x"], "--address x is an invalid IP address"),
        (["--cache-check-interval=-1s"], "--cache-check-interval -1s must be at least 0. 0 for turning off the check"),
        (["--logging-format=xml"], 'format: Invalid value: "xml": Unsupported log format'),
        (
            ["--show-hidden-metrics-for-version=1.20"],
            "--show-hidden-metrics-for-version must be omitted or have the value '1.34'. Only the previous minor version is allowed",
        ),
        (["--requestheader-group-headers=a, ,b"], 'empty value in "requestheader-group-headers"'),
        (
            ["--requestheader-uid-headers=X-Uid"],
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation will not work",
        ),
        (["--authorization-always-allow-paths=/a*b,/c/*"], 'only trailing * allowed in "a*b"'),
        (["--feature-gates=Foo=true"], "unrecognized feature gate: Foo"),
        (["--version=xyz"], 'invalid argument "xyz" for "--version" flag: strconv.ParseBool: parsing "xyz": invalid syntax'),
        (["--log-flush-frequency=0"], 'flushFrequency: Invalid value: "0s": Must be greater than zero'),
        (["--log-text-split-stream"], "options.text.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled"),
        (["--log-json-info-buffer-size=1Ki"], "options.json.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled"),
        (["--vmodule=a=1", "--logging-format=json"], "vmodule: Forbidden: Only supported for text log format"),
        (["--emulated-version=1.31"], "emulation version 1.31 is not between [1.32, 1.35]"),
        (["--emulated-version=foo=1.34"], "component not registered: foo"),
        (["--emulated-version=1.34.1"], "patch version not allowed, got: kube=1.34.1"),
        (["--min-compatibility-version=abc"], 'could not parse "abc" as version'),
        (
            ["--emulated-version=1.33", "--min-compatibility-version=1.34"],
            "minCompatibilityVersion version 1.34 is not between [1.32, 1.33]",
        ),
        (
            ["--allow-metric-labels=a=b"],
            '--allow-metric-labels must have a list of kv pair with format `metricName,labelName=labelValue, labelValue,...`, not "a"',
        ),
    ],
)
def test_a_mistake_has_the_text_of_the_reference(arguments: list[str], error: str) -> None:
    assert errors(*arguments) == (error,)


def test_all_mistakes_of_a_command_line_are_reported_at_once() -> None:
    assert len(errors("--nope", "--port=x", "--secure-port=99999", "--feature-gates=A,B=x", "left")) == 6


def test_flags_without_effect_in_this_version_are_known() -> None:
    assert not_acted_on(parse_flags(["--vmodule=x=1", "--config=a", "--log-flush-frequency=1s"])) == ("--log-flush-frequency", "--vmodule")
    assert set(FLAGS) >= NOT_ACTED_ON.keys()


def test_the_labels_that_metrics_may_show_are_read_from_a_manifest_unless_the_flag_says_them(tmp_path: Path) -> None:
    path = tmp_path / "labels.yaml"
    path.write_text('"scheduler_pending_pods,queue": "active,backoff"\n')
    assert parse_flags([f"--allow-metric-labels-manifest={path}"]).allow_metric_labels == {"scheduler_pending_pods,queue": "active,backoff"}
    both = [f"--allow-metric-labels-manifest={path}", "--allow-metric-labels=m,l=a"]
    assert parse_flags(both).allow_metric_labels == {"m,l": "a"}


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, "cannot be read: No such file or directory"),
        ("a: b", "must have a list of kv pair with format"),
        ("- a", 'expected a mapping of "metric,label" to "value,value"'),
        ("a: 1", 'expected a mapping of "metric,label" to "value,value"'),
        ("a: [", "line 2, column 1: not valid YAML: did not find expected node content"),
        ("a: &a [1, 1]\nb: [*a, *a, *c]", "alias *c names no anchor that is complete before it"),
    ],
)
def test_a_manifest_of_labels_that_is_none_is_named(tmp_path: Path, content: str | None, error: str) -> None:
    path = tmp_path / "labels.yaml"
    if content is not None:
        path.write_text(content)
    (found,) = errors(f"--allow-metric-labels-manifest={path}")
    assert found.startswith(("--allow-metric-labels-manifest", f"--allow-metric-labels-manifest {path}:"))
    assert error in found


@pytest.mark.parametrize(("path", "error"), [("a\x00b", "embedded null byte"), ("\ud800", "surrogates not allowed")])
def test_a_path_that_no_file_can_have_is_named(path: str, error: str) -> None:
    (found,) = errors(f"--allow-metric-labels-manifest={path}")
    assert found.startswith(f"--allow-metric-labels-manifest {path}: cannot be read: ")
    assert error in found


def write(tmp_path: Path, body: str) -> str:
    path = tmp_path / "config.yaml"
    path.write_text(f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{body}")
    return str(path)


def test_leader_election_flags_override_the_file_and_the_deprecated_ones_do_not(tmp_path: Path) -> None:
    path = write(tmp_path, "leaderElection: {leaderElect: true, resourceName: a, leaseDuration: 30s}\nclientConnection: {qps: 7}\n")
    line = ["--config", path, "--leader-elect=false", "--leader-elect-resource-name=b", "--kube-api-qps=9", "--profiling=false"]
    config = effective_config(parse_flags(line))
    assert (config.leader_election.leader_elect, config.leader_election.resource_name) == (False, "b")
    assert (config.leader_election.lease_duration, config.client_connection.qps, config.enable_profiling) == (Duration(30), 7, True)


def test_without_a_file_the_deprecated_flags_count() -> None:
    line = ["--kubeconfig=/k", "--kube-api-qps=9", "--kube-api-burst=3", "--profiling=false", "--leader-elect-lease-duration=20s"]
    config = effective_config(parse_flags(line))
    connection = config.client_connection
    assert (connection.kubeconfig, connection.qps, connection.burst, config.enable_profiling) == ("/k", 9, 3, False)
    assert config.leader_election.lease_duration == Duration(20)
    assert [profile.scheduler_name for profile in config.profiles] == ["default-scheduler"]


def test_flags_that_make_the_configuration_wrong_are_refused_like_it() -> None:
    with pytest.raises(ConfigError) as refused:
        effective_config(parse_flags(["--leader-elect-lease-duration=5s"]))
    assert str(refused.value) == (
        '(flags): document 1: leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`'
    )


def test_gates_of_the_command_line_reach_the_plugins() -> None:
    config = effective_config(parse_flags(["--feature-gates=NodeDeclaredFeatures=true"]))
    assert [ref.name for ref in config.profiles[0].points["filter"]][-1] == "NodeDeclaredFeatures"
