"""What must hold by coscheduling.md §15, and what §13 asks for instead of defects: the scenarios and tests that hold each line.

A scenario is played on the embedded cluster and on a real one. What it cannot see enough of has tests besides.
"""

from __future__ import annotations

from support.checklists import lines_of, missing_tests, played

LINES: dict[int, tuple[str, ...]] = {
    1: ("gang-of-a-podgroup-is-bound-once-it-is-complete",),
    2: ("gang-waiting-time-45s", "gang-waiting-time-45", "gang-waiting-time-0"),
    3: ("gang-timeout-of-a-podgroup-90", "gang-timeout-of-a-podgroup-negative"),
    4: ("gang-group-with-a-missing-gang",),
    5: ("gang-strict-of-which-one-does-not-fit",),
    6: ("gang-nonstrict-of-which-one-does-not-fit",),
    7: ("gang-only-waiting-places-whole-gangs",),
    8: (
        "gang-waiting-and-running-with-room-for-two-more",
        "gang-waiting-and-running-with-room-for-one-more",
        "gang-once-satisfied-lets-single-members-go",
    ),
    9: ("gang-members-above-the-minimum-go-alone",),
    10: ("gangs-two-of-ten-on-room-for-fifteen",),
    12: ("gang-half-bound-goes-on-after-a-restart",),
    13: ("gang-bound-together-says-so",),
    14: ("gang-with-a-reservation-as-member",),
    15: (
        "topology-smallest-block-that-takes-all",
        "topology-a-larger-gang-takes-a-larger-block",
        "topology-spread-over-the-spine-biggest-blocks-first",
    ),
    16: ("topology-of-equal-blocks-the-fuller-spine",),
    17: ("topology-the-lowest-layer-of-mustgather-counts", "topology-mustgather-of-an-unknown-layer"),
    18: ("topology-members-in-multiples", "topology-no-multiple-fits"),
    19: ("topology-members-by-rank",),
    20: ("topology-selector-without-a-topology", "topology-selector-goes-near-its-pods"),
    21: ("topology-selector-goes-near-its-pods",),
    22: ("topology-status",),
    23: ("gang-preempts-for-none-when-there-is-room-for-two-of-three",),
    24: ("gang-preempts-with-a-victim-for-each-member",),
    25: ("plain-pod-preempts-by-coscheduling", "plain-pod-preempts-on-the-first-of-equal-nodes"),
    26: ("topology-gang-evicts-no-more-than-it-needs",),
    27: ("gang-that-never-preempts",),
    28: ("gang-podgroup-phases", "gang-podgroup-finished"),
    29: ("gang-podgroup-deleted-and-created-again",),
    30: ("gangs-of-two-profiles",),
    31: ("gang-member-with-a-scheduling-gate",),
    32: ("gang-that-fits-nowhere-goes-when-there-is-room",),
    33: ("gang-of-a-higher-priority-goes-first",),
}
"""By line of §15, names of scenarios."""
IN_PROCESS: dict[int, tuple[str, ...]] = {
    10: ("property/test_gangs.py::test_gangs_are_bound_whole_or_not_at_all_and_who_fits_goes",),
    11: ("unit/scheduler/test_gangs_at_rest.py::test_gangs_are_bound_one_after_the_other_and_a_plain_pod_between_them_does_not_wait",),
    12: ("e2e/test_gang_kill.py::test_each_gang_completes_however_often_the_scheduler_is_killed",),
    16: ("property/test_topology_plan.py::test_a_plan_for_equal_members_is_the_reference_s",),
    21: (
        "unit/plugins/test_plugins_coscheduling_attraction.py::test_scores_fall_evenly_from_the_node_nearest_to_the_pods_of_the_selector",
    ),
    24: (
        "unit/framework/test_framework_preemption_job.py"
        "::test_the_cheapest_nodes_are_chosen_and_all_pods_nominated_and_gated_until_the_last_victim_goes",
    ),
    26: ("property/test_topology_preemption.py::test_a_gang_in_one_domain_has_the_fewest_victims_of_all_placements",),
    32: (
        "unit/scheduler/test_gangs_at_rest.py::test_100_impossible_gangs_of_an_idle_cluster_are_tried_once_in_five_minutes_and_write_nothing",
    ),
    33: ("unit/scheduler/test_gangs_at_rest.py::test_gangs_of_equal_priority_that_fail_are_tried_in_turns",),
    34: ("unit/config/test_config_koordinator_args.py::test_coscheduling_defaults_and_limits",),
}
"""By line of §15, tests."""
IN_PROCESS_ONLY = {11, 34}
"""Lines without a scenario: what they ask for is the order of bindings, and what keeps the scheduler from starting."""

DEVIATIONS: dict[int, tuple[str, ...]] = {
    1: ("gang-preempts-for-none-when-there-is-room-for-two-of-three",),
    2: ("gangs-of-two-profiles",),
    3: ("topology-members-by-rank",),
    4: ("topology-leader-that-few-nodes-take", "topology-gang-of-two-kinds-preempts-in-one-block"),
    5: ("topology-same-name-under-two-parents",),
    6: ("topology-gang-evicts-no-more-than-it-needs",),
    7: ("gang-podgroup-deleted-and-created-again",),
    8: ("gang-podgroup-finished",),
    9: ("gang-of-a-podgroup-is-bound-once-it-is-complete",),
    10: ("topology-selector-without-a-topology", "topology-selector-goes-near-its-pods", "topology-spec-is-ignored-where-it-is-off"),
    11: ("gang-members-above-the-minimum-go-alone", "gang-whose-representative-is-deleted"),
    12: ("gang-member-with-a-scheduling-gate",),
    13: ("topology-gang-waits-for-the-topology",),
    14: ("gang-that-fits-nowhere-goes-when-there-is-room",),
    16: ("topology-only-pods-that-run-attract",),
}
"""By number of the defect in §13, scenarios of what is required instead."""
DEVIATIONS_IN_PROCESS: dict[int, tuple[str, ...]] = {
    9: (
        "unit/scheduler/test_gangs_at_rest.py"
        "::test_the_condition_of_a_member_that_is_held_back_is_written_once_a_second_at_most_and_once_a_reason",
    ),
    14: (
        "unit/scheduler/test_gangs_at_rest.py::test_100_impossible_gangs_of_an_idle_cluster_are_tried_once_in_five_minutes_and_write_nothing",
    ),
    15: (
        "unit/scheduler/test_failed_plans.py::test_a_gang_is_not_planned_again_while_nothing_changed",
        "unit/scheduler/test_failed_plans.py::test_whatever_a_plan_depends_on_lets_the_gang_be_planned_again",
    ),
}
"""By number, tests; 15 is about work that is not done, which only these can count."""


def test_each_line_is_held_by_a_scenario_or_in_process() -> None:
    assert lines_of("coscheduling.md", "15. ") == list(range(1, 35))
    assert set(range(1, 35)) - set(LINES) == IN_PROCESS_ONLY
    assert set(IN_PROCESS) >= IN_PROCESS_ONLY


def test_what_is_required_instead_of_each_defect_is_held() -> None:
    assert lines_of("coscheduling.md", "13. ", r"- D(\d+)\. ") == list(range(1, 17))
    assert set(DEVIATIONS) | set(DEVIATIONS_IN_PROCESS) == set(range(1, 17))


def test_the_scenarios_exist_and_are_played_on_a_real_control_plane() -> None:
    named = {name for held in (LINES, DEVIATIONS) for names in held.values() for name in names}
    assert named - played("coscheduling*.yaml") == set()


def test_the_tests_exist() -> None:
    assert missing_tests(name for held in (IN_PROCESS, DEVIATIONS_IN_PROCESS) for names in held.values() for name in names) == []
