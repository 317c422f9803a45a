"""Strict decoding, defaults and validation of KubeSchedulerConfiguration: every mistake is named, with kube-scheduler's texts."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from koordsched.config import ConfigError, Environment, load_config, load_config_object, load_config_text, parse_feature_gates
from koordsched.config.duration import Duration
from koordsched.config.errors import ConfigMistake

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def mistakes(body: str, gates: str = "") -> list[tuple[str, str]]:
    """Return (path, problem) of all mistakes of a configuration with this body."""
    with pytest.raises(ConfigError) as refused:
        load_config_text(HEADER + textwrap.dedent(body), Environment(gates=parse_feature_gates([gates])))
    return [(mistake.path, mistake.problem) for mistake in refused.value.errors]


def test_a_mistake_names_file_document_path_value_and_line(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(HEADER + "parallelism: many\n")
    with pytest.raises(ConfigError) as refused:
        load_config(path)
    assert str(refused.value) == f'{path}: document 1: parallelism: "many": expected an integer (line 3)'


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file() -> None:
    body = """
    parallelism: many
    parallelsm: 3
    profiles:
    - schedulerName: a
      percentageOfNodesToScore: 101
      plugins:
        filters: {}
    """
    assert mistakes(body) == [
        ("parallelism", '"many": expected an integer'),
        ("parallelsm", '3: strict decoding error: unknown field "parallelsm", did you mean "parallelism"?'),
        ("profiles[0].percentageOfNodesToScore", "Invalid value: 101: not in valid range [0-100]"),
        ("profiles[0].plugins.filters", '{}: strict decoding error: unknown field "profiles[0].plugins.filters", did you mean "filter"?'),
    ]


@pytest.mark.parametrize(
    ("body", "path", "problem"),
    [
        ("parallelism: 1.5", "parallelism", "1.5: expected an integer"),
        ("parallelism: true", "parallelism", "true: expected an integer"),
        ("parallelism: 2147483648", "parallelism", "2147483648: expected an integer from -2147483648 to 2147483647"),
        ("enableProfiling: 'true'", "enableProfiling", '"true": expected true or false'),
        ("leaderElection: []", "leaderElection", "[]: expected a mapping"),
        ("leaderElection: {leaseDuration: 15}", "leaderElection.leaseDuration", "15: expected a duration such as 15s or 1m30s"),
        ("clientConnection: {qps: 1e39}", "clientConnection.qps", "1e+39: expected a number"),
        ("profiles: {}", "profiles", "{}: expected a list"),
        ("profiles: [7]", "profiles[0]", "7: expected a mapping"),
        ("profiles: [{schedulerName: 5}]", "profiles[0].schedulerName", "5: expected a text"),
        ("extenders: [{urlPrefix: x, tlsConfig: {caData: '*'}}]", "extenders[0].tlsConfig.caData", '"*": expected base64 text'),
        ("extenders: [{urlPrefix: x, tlsConfig: {caData: 'é'}}]", "extenders[0].tlsConfig.caData", '"é": expected base64 text'),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_what_was_expected(body: str, path: str, problem: str) -> None:
    (found,) = mistakes(body)
    assert found[0] == path
    assert found[1].startswith(problem)


def test_a_whole_number_written_with_a_point_is_an_integer() -> None:
    assert load_config_text(HEADER + "parallelism: 8.0\n").parallelism == 8


def test_a_value_that_cannot_be_read_is_not_complained_about_again() -> None:
    assert mistakes("profiles: [{schedulerName: a}, {schedulerName: [b]}]") == [("profiles[1].schedulerName", '["b"]: expected a text')]


def test_null_means_absent() -> None:
    config = load_config_text(HEADER + "parallelism: null\nprofiles:\nleaderElection: {leaseDuration: ~}\n")
    assert config.parallelism == 16
    assert config.leader_election.lease_duration == Duration(15)
    assert [profile.scheduler_name for profile in config.profiles] == ["default-scheduler"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "",
            [
                ("apiVersion", "Required value: expected kubescheduler.config.k8s.io/v1"),
                ("kind", "Required value: expected KubeSchedulerConfiguration"),
            ],
        ),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n",
            [
                (
                    "apiVersion",
                    'Invalid value: "kubescheduler.config.k8s.io/v1beta3": expected kubescheduler.config.k8s.io/v1, '
                    'did you mean "kubescheduler.config.k8s.io/v1"?',
                )
            ],
        ),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: Pod\n",
            [("kind", 'Invalid value: "Pod": expected KubeSchedulerConfiguration')],
        ),
        ("- 1\n", [("(root)", "[1]: expected a mapping")]),
    ],
)
def test_what_does_not_say_that_it_is_a_scheduler_configuration_is_refused(text: str, expected: list[tuple[str, str]]) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config_text(text)
    assert [(mistake.path, mistake.problem) for mistake in refused.value.errors] == expected


def test_a_second_document_is_refused_and_empty_documents_are_not_counted() -> None:
    assert load_config_text(f"---\n{HEADER}---\n").parallelism == 16
    with pytest.raises(ConfigError) as refused:
        load_config_text(f"{HEADER}---\na: 1\n", name="two.yaml")
    assert refused.value.errors == (ConfigMistake("(root)", "expected only one document", "two.yaml", 2, 1),)


@pytest.mark.parametrize(
    ("name", "problem"),
    [("missing.yaml", "cannot be read: No such file or directory"), ("", "cannot be read: Is a directory"), ("a\x00b", "cannot be read: ")],
)
def test_a_file_that_cannot_be_read_is_one_clear_mistake(tmp_path: Path, name: str, problem: str) -> None:
    path = tmp_path / name
    with pytest.raises(ConfigError) as refused:
        load_config(path)
    (mistake,) = refused.value.errors
    assert mistake.file == str(path)
    assert mistake.problem.startswith(problem)


def test_bytes_that_are_no_utf8_are_one_clear_mistake() -> None:
    with pytest.raises(ConfigError, match="not valid UTF-8"):
        load_config_text(b"\xff\xfe\x00")
    assert load_config_text(b"\xef\xbb\xbf" + HEADER.encode()).parallelism == 16


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("parallelism: 0", ("parallelism", "Invalid value: 0: should be an integer value greater than zero")),
        ("percentageOfNodesToScore: -1", ("percentageOfNodesToScore", "Invalid value: -1: not in valid range [0-100]")),
        ("podInitialBackoffSeconds: 0", ("podInitialBackoffSeconds", "Invalid value: 0: must be greater than 0")),
        (
            "podInitialBackoffSeconds: 5\npodMaxBackoffSeconds: 3",
            ("podMaxBackoffSeconds", "Invalid value: 3: must be greater than or equal to PodInitialBackoffSeconds"),
        ),
        ("clientConnection: {burst: -1}", ("clientConnection.burst", "Invalid value: -1: must be non-negative")),
        ("leaderElection: {retryPeriod: -1s}", ("leaderElection.retryPeriod", 'Invalid value: "-1s": must be greater than zero')),
        (
            "leaderElection: {leaseDuration: 10s}",
            ("leaderElection.leaseDuration", 'Invalid value: "10s": must be greater than `RenewDeadline`'),
        ),
        (
            "leaderElection: {retryPeriod: 9s}",
            ("leaderElection.renewDeadline", 'Invalid value: "10s": renewDeadline must be greater than retryPeriod*JitterFactor'),
        ),
        (
            "leaderElection: {resourceLock: endpoints}",
            ("leaderElection.resourceLock", 'Invalid value: "endpoints": resourceLock value must be "leases"'),
        ),
        (
            "extenders: [{urlPrefix: x, prioritizeVerb: p}]",
            ("extenders[0].weight", "Invalid value: 0: must have a positive weight applied to it"),
        ),
        (
            "extenders: [{urlPrefix: x, tlsConfig: {insecure: true, caFile: /ca}}]",
            ("extenders[0].tlsConfig", "Forbidden: specifying a root certificates file with the insecure flag is not allowed"),
        ),
        (
            "extenders: [{urlPrefix: x, bindVerb: b}, {urlPrefix: z, bindVerb: b}]",
            ("extenders", 'Invalid value: "found 2 extenders implementing bind": only one extender can implement bind'),
        ),
        (
            "extenders: [{urlPrefix: x, managedResources: [{name: cpu}]}]",
            ("extenders[0].managedResources[0].name", 'Invalid value: "cpu": is an invalid extended resource name'),
        ),
        (
            "extenders: [{urlPrefix: x, managedResources: [{name: a.b/c}]}, {urlPrefix: z, managedResources: [{name: a.b/c}]}]",
            ("extenders[1].managedResources[0].name", 'Invalid value: "a.b/c": duplicate extender managed resource name'),
        ),
    ],
)
def test_a_value_out_of_range_is_refused_in_the_words_of_kube_scheduler(body: str, expected: tuple[str, str]) -> None:
    assert mistakes(body) == [expected]


def test_the_numbers_of_an_election_that_is_off_are_not_looked_at() -> None:
    text = "leaderElection: {leaderElect: false, leaseDuration: 1s, resourceLock: endpoints}\n"
    assert load_config_text(HEADER + text).leader_election.leader_elect is False


def test_zeros_in_connection_and_election_mean_their_defaults() -> None:
    config = load_config_text(
        HEADER + "clientConnection: {qps: 0, burst: 0, contentType: ''}\nleaderElection: {leaseDuration: 0s, resourceName: ''}\n"
    )
    connection, election = config.client_connection, config.leader_election
    assert (connection.qps, connection.burst, connection.content_type) == (50, 100, "application/vnd.kubernetes.protobuf")
    assert (election.lease_duration, election.resource_name, election.resource_namespace) == (Duration(15), "kube-scheduler", "kube-system")


@pytest.mark.parametrize(
    ("body", "contention"),
    [
        ("", True),
        ("enableProfiling: false", False),
        ("enableProfiling: false\nenableContentionProfiling: true", True),
        ("enableContentionProfiling: false", False),
    ],
)
def test_contention_profiling_is_on_where_profiling_is_unless_it_is_said(body: str, contention: bool) -> None:
    assert load_config_text(HEADER + body).enable_contention_profiling is contention


def test_only_a_single_profile_gets_the_default_name() -> None:
    assert mistakes("profiles: [{}, {}]") == [
        ("profiles[0].schedulerName", "Required value"),
        ("profiles[1].schedulerName", "Required value"),
        ("profiles[1].schedulerName", 'Duplicate value: "profiles[0].schedulerName"'),
    ]
    assert mistakes("profiles: [{schedulerName: ''}]") == [("profiles[0].schedulerName", "Required value")]


def test_all_profiles_sort_the_queue_alike() -> None:
    body = """
    profiles:
    - schedulerName: a
    - schedulerName: b
      plugins: {queueSort: {enabled: [{name: PrioritySort}]}}
    """
    value = '{"enabled":[{"name":"PrioritySort","weight":0}],"disabled":[]}'
    assert mistakes(body) == [("profiles[1].plugins.queueSort", f"Invalid value: {value}: must be the same for all profiles")]


@pytest.mark.parametrize("point", ["filter", "multiPoint"])
@pytest.mark.parametrize("name", ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"])
def test_a_plugin_that_kubernetes_removed_is_refused_once(point: str, name: str) -> None:
    problem = (
        f'Invalid value: "{name}": was invalid in version "v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")'
    )
    found = mistakes(f"profiles: [{{plugins: {{{point}: {{enabled: [{{name: NodePorts}}, {{name: {name}}}]}}}}}}]")
    assert found == [(f"profiles[0].plugins.{point}.enabled[1]", problem)]


def test_arguments_given_twice_for_a_plugin_are_refused() -> None:
    assert mistakes("profiles: [{pluginConfig: [{name: NodePorts}, {name: NodePorts}]}]") == [
        ("profiles[0].pluginConfig[1]", 'Duplicate value: "NodePorts"')
    ]


def test_a_plain_object_is_read_like_its_text() -> None:
    value = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "parallelism": 3}
    assert load_config_object(value) == load_config_text(HEADER + "parallelism: 3\n")
    with pytest.raises(ConfigError, match=r'^scenario: document 1: parallelism: "x": expected an integer$'):
        load_config_object(value | {"parallelism": "x"}, name="scenario")


def test_koord_schedulers_acceptance_line_4_ends_with_the_expected_text() -> None:
    """framework.md §13 line 4."""
    (found,) = mistakes("podMaxBackoffSeconds: 3\npodInitialBackoffSeconds: 5\n")
    assert "must be greater than or equal to PodInitialBackoffSeconds" in found[1]


def test_the_arguments_of_the_queue_sort_plugin_are_the_same_in_all_profiles() -> None:
    profile = "{{schedulerName: {name}, plugins: {sort}, pluginConfig: [{{name: PrioritySort, args: {{a: {value}}}}}]}}"
    sort = "{queueSort: {enabled: [{name: PrioritySort}]}}"
    profiles = ", ".join(profile.format(name=name, sort=sort, value=value) for name, value in (("a", 1), ("b", 2)))
    assert mistakes(f"profiles: [{profiles}]") == [
        ("profiles[1].pluginConfig[0].args", 'Invalid value: {"a":2}: queueSort must be the same for all profiles')
    ]


def test_maps_and_lists_of_the_wrong_kind_are_refused_item_by_item() -> None:
    body = """
    profiles:
    - pluginConfig:
      - {name: LoadAwareScheduling, args: {resourceWeights: [cpu], usageThresholds: {cpu: high}, supportedResources: [1]}}
      - {name: ElasticQuota, args: {defaultQuotaGroupMax: {cpu: true}}}
    """
    path = "profiles[0].pluginConfig"
    assert mistakes(body) == [
        (f"{path}[0].args.resourceWeights", '["cpu"]: expected a mapping'),
        (f"{path}[0].args.usageThresholds.cpu", '"high": expected an integer'),
        (f"{path}[0].args.supportedResources[0]", "1: expected a text"),
        (f"{path}[1].args.defaultQuotaGroupMax.cpu", "true: expected a quantity such as 4, 500m or 1Gi"),
    ]
