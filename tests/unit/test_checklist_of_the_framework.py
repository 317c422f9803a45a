"""What must hold by frameworkext.md §10: for each line the scenarios and tests that hold it, on the embedded cluster and on a real one.

A scenario is played on both. A line of which a scenario cannot see enough has a test of each.
"""

from __future__ import annotations

from support.checklists import lines_of, missing_tests, played

SCENARIOS: dict[int, tuple[str, ...]] = {
    1: ("loadaware-usage-above-the-threshold-refuses-the-pod",),
    2: ("loadaware-usage-is-rounded-as-the-reference-rounds-it",),
    3: ("loadaware-estimate-of-a-burstable-pod",),
    4: ("loadaware-estimate-of-pods-that-request-nothing",),
    5: ("loadaware-estimate-of-a-batch-pod",),
    6: ("loadaware-thresholds-of-zero-turn-the-filter-off", "loadaware-without-thresholds-65-percent-of-cpu-and-95-of-memory-hold"),
    7: ("loadaware-pods-of-daemonsets-pass",),
    8: ("loadaware-a-node-may-have-thresholds-of-its-own",),
    9: ("loadaware-prod-pods-have-thresholds-of-their-own",),
    10: ("loadaware-aggregated-usage",),
    11: ("loadaware-an-expired-metric-refuses-pods",),
    12: ("loadaware-a-metric-without-a-time-counts-as-expired",),
    13: ("loadaware-the-score-is-what-would-be-left",),
    14: ("loadaware-the-dominant-resource-may-weigh-more",),
    16: ("loadaware-estimates-count-for-as-long-as-metrics-are-apart",),
    17: ("fitplus-each-resource-is-scored-its-own-way", "fitplus-a-point-more-for-the-other-node-decides-against-it"),
    18: ("fitplus-nodes-are-alike-for-a-pod-that-requests-nothing-configured", "fitplus-overhead-counts-and-ends-no-process"),
    19: ("scarce-resources-are-left-for-pods-that-request-them", "scarce-resources-lower-the-score-by-their-share"),
    20: (
        "hint-preferred-nodes-come-first-in-their-order",
        "hint-the-next-preferred-node-follows",
        "hint-without-a-preferred-node-that-fits-the-best-other-one-is-taken",
    ),
    21: ("hint-of-a-required-node-that-does-not-exist",),
    22: ("hint-that-cannot-be-read-is-an-error-until-it-is-mended",),
    24: ("a-pod-whose-label-names-another-scheduler-is-not-attempted",),
    25: ("batch-resources-by-their-older-names-are-those-by-the-newer",),
    26: ("what-a-node-reserves-is-not-allocatable",),
    27: ("reserved-cpus-stand-in-for-the-amount-of-cpu", "a-reservation-that-cannot-be-read-takes-nothing-off"),
    28: ("a-class-gives-a-pod-its-priority",),
    29: ("with-the-gate-only-pods-that-say-so-preempt",),
    35: ("what-reservations-refuse-is-an-event-of-its-own",),
    36: ("loadaware-two-profiles-that-share-a-node-count-each-others-pods",),
    37: ("without-default-prebind-what-plugins-allocate-is-not-written",),
    41: ("fitplus-each-resource-is-scored-its-own-way",),
    42: ("a-schedule-explanation-says-which-nodes-refuse-a-pod-and-why",),
}
"""By line, names of scenarios."""
FILES = (
    "explanations.yaml",
    "loadaware*.yaml",
    "noderesourcesfitplus.yaml",
    "scarceresourceavoidance.yaml",
    "schedulers.yaml",
    "schedulinghint.yaml",
    "transformers.yaml",
)
"""Where these scenarios are."""

EMBEDDED: dict[int, tuple[str, ...]] = {
    15: ("unit/config/test_config_koordinator_args.py::test_load_aware_arguments_out_of_range_are_refused",),
    23: ("unit/nodenumaresource/test_plugin_numa_requests.py::test_a_pod_costs_one_binding_whether_or_not_it_gets_cpus_of_its_own",),
    30: (
        "unit/scheduler/test_decision_log.py::test_a_pod_with_three_feasible_nodes_has_a_table_of_the_two_best",
        "unit/server/test_server_debug.py::test_a_value_that_is_none_changes_nothing",
        "unit/server/test_server_debug.py::test_flags_can_only_be_put",
    ),
    31: (
        "unit/server/test_server_node_info.py::test_a_node_that_does_not_exist_is_not_found",
        "unit/server/test_server_node_info.py::test_a_standby_answers_503",
    ),
    32: ("unit/scheduler/test_decision_log.py::test_a_failed_pod_is_diagnosed",),
    33: ("unit/scheduler/test_decision_log.py::test_nodes_that_were_looked_at_and_that_pass_are_counted_for_a_pod_that_gets_one",),
    34: ("unit/scheduler/test_scheduler_monitor.py::test_an_attempt_that_takes_45_s_is_counted_at_40_s_and_when_it_ends",),
    38: (
        "unit/scheduler/test_scheduler_cycle.py::test_a_pod_that_is_deleted_while_it_waits_makes_room_at_once",
        "unit/scheduler/test_scheduler_cycle.py::test_a_pod_that_begins_to_terminate_while_it_waits_is_given_up",
    ),
    39: ("unit/serving/test_serving_sync_barrier.py::test_without_the_pod_scheduling_begins_at_once",),
    40: ("unit/cluster/test_cluster_informer.py::test_a_kind_that_is_not_served_is_empty_until_it_is",),
}
REAL: dict[int, tuple[str, ...]] = {
    15: ("e2e/test_loadaware.py::test_a_weight_without_a_scaling_factor_stops_the_start",),
    23: ("e2e/test_transformers.py::test_a_pod_costs_two_requests_also_where_it_gets_cpus_of_its_own",),
    30: ("e2e/test_explanations.py::test_scores_are_logged_when_a_flag_is_put_and_nodes_are_counted",),
    31: ("e2e/test_explanations.py::test_scores_are_logged_when_a_flag_is_put_and_nodes_are_counted",),
    32: ("e2e/test_explanations.py::test_a_pending_pod_is_explained_in_its_object_at_the_port_and_in_the_log",),
    33: ("e2e/test_explanations.py::test_scores_are_logged_when_a_flag_is_put_and_nodes_are_counted",),
    34: ("e2e/test_waiting_on_permit.py::test_an_attempt_that_takes_too_long_is_counted_at_looks_and_when_it_ends",),
    38: ("e2e/test_waiting_on_permit.py::test_a_pod_that_is_deleted_while_it_waits_is_not_bound_and_leaves_its_room",),
    39: (
        "e2e/test_sync_barrier.py::test_each_new_leader_marks_the_barrier_pod_and_goes_on_where_the_one_before_it_ended",
        "e2e/test_sync_barrier.py::test_without_the_barrier_pod_scheduling_begins_at_once",
    ),
    40: ("e2e/test_loadaware.py::test_node_metrics_may_be_defined_later",),
}
"""By line, tests."""


def test_each_line_is_held_on_both_clusters() -> None:
    lines = lines_of("frameworkext.md", "10. ")
    assert lines == list(range(1, 43))
    assert {line for line in lines if line not in SCENARIOS and (line not in EMBEDDED or line not in REAL)} == set()


def test_the_scenarios_exist_and_are_played_on_a_real_control_plane() -> None:
    assert {name for names in SCENARIOS.values() for name in names} - played(*FILES) == set()


def test_the_tests_exist() -> None:
    assert missing_tests(name for held in (EMBEDDED, REAL) for names in held.values() for name in names) == []
