"""What must hold by deviceshare.md §17: the scenarios and tests that hold each line.

A scenario is played on the embedded cluster and on a real one. What it cannot see enough of has tests besides.
"""

from __future__ import annotations

from support.checklists import lines_of, missing_tests, played

LINES: dict[int, tuple[str, ...]] = {
    1: ("gpus-fill-started-places-before-whole-ones",),
    2: ("gpus-a-share-goes-to-the-emptiest-of-the-started-places", "gpus-a-share-is-packed-with-most-allocated"),
    3: ("partitions-built-in-of-known-models",),
    4: ("partitions-of-the-device-in-ascending-order-of-score",),
    5: ("partitions-restricted-to-the-first-score",),
    6: ("gpus-memory-is-worked-out-from-the-ratio-and-the-ratio-from-memory",),
    7: ("gpus-the-idlest-node-scores-highest", "gpus-the-fullest-node-scores-highest-with-most-allocated"),
    8: ("requests-in-units-that-are-none", "requests-of-whole-devices-by-their-names"),
    9: ("requests-of-sets-that-mean-nothing", "requests-of-several-cards-in-shares", "gpus-several-shared-ones-for-one-pod"),
    10: ("gpus-a-required-scope-is-kept",),
    11: ("gpus-without-topology",),
    12: ("joint-with-one-interface",),
    13: ("joint-interfaces-of-the-switch-come-first",),
    14: ("rdma-virtual-functions-by-address", "rdma-virtual-functions-by-labels", "rdma-no-virtual-functions-at-all"),
    15: ("rdma-exclusive-by-pcie-is-as-none",),
    16: ("gpus-are-taken-from-both-numa-nodes-where-none-has-enough",),
    17: ("numa-gpus-and-cpus-of-one-numa-node",),
    18: ("numa-interfaces-of-both-numa-nodes", "numa-a-type-that-is-not-there"),
    19: ("device-reservation-owner-gets-the-card-of-its-reservation",),
    20: ("device-reservation-that-is-restricted-gives-what-it-has-left",),
    21: ("device-reservation-is-ignored-where-the-pod-says-so",),
    22: ("isolation-of-shares-needs-the-node-label",),
    23: ("isolation-models-that-cannot-be-shared",),
    24: ("adaptation-cambricon", "adaptation-huawei-whole-cards", "adaptation-huawei-virtual-npu"),
    25: ("adaptation-old-node-locks-are-replaced", "adaptation-node-locks-of-living-pods-block"),
    26: ("lifecycle-nodes-without-device-are-the-kubelets",),
    27: ("lifecycle-restart-changes-nothing", "device-reservation-restart-changes-nothing"),
    28: ("joint-well-planned-nodes-are-filtered-on-gpus-only", "joint-well-planned-label-as-a-metric"),
    29: ("badinput-null-entries-are-skipped",),
    30: ("requests-by-deprecated-names",),
    32: ("lifecycle-exactly-what-was-recorded-becomes-free", "lifecycle-devices-of-another-pod-are-not-freed"),
}
"""By line, names of scenarios."""
IN_PROCESS: dict[int, tuple[str, ...]] = {
    17: ("unit/core/test_device_hints.py::test_four_gpus_beside_a_used_one_come_from_the_second_numa_node_or_from_both",),
    18: ("unit/core/test_device_hints.py::test_nics_alone_always_score_and_four_of_two_numa_nodes_need_both",),
    28: ("unit/deviceshare/test_deviceshare_planning.py::test_a_node_is_shown_as_long_as_its_device_says_false",),
    31: ("unit/config/test_config_koordinator_args.py::test_device_share_refuses_weights_out_of_range",),
}
"""By line, tests of what no scenario sees: scores of hints, that a metric's series has gone, and what keeps the scheduler from starting."""
IN_PROCESS_ONLY = {31}


def test_each_line_is_held_by_a_scenario_or_in_process() -> None:
    assert lines_of("deviceshare.md", "17. ") == list(range(1, 33))
    assert set(range(1, 33)) - set(LINES) == IN_PROCESS_ONLY
    assert set(IN_PROCESS) >= IN_PROCESS_ONLY


def test_the_scenarios_exist_and_are_played_on_a_real_control_plane() -> None:
    named = {name for names in LINES.values() for name in names}
    assert named - played("deviceshare*.yaml") == set()


def test_the_tests_exist() -> None:
    assert missing_tests(name for names in IN_PROCESS.values() for name in names) == []
