"""What must hold by reservation.md §19, and what is decided otherwise by its §17: for each line the scenarios and tests that hold it.

A scenario is played on the embedded cluster and on a real control plane.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from koordsched.scenario.command import ScenarioOptions, plan_scenarios
from koordsched.scenario.live.limits import REAL_MAX_WAIT, BackendLimits

TESTS = Path(__file__).parents[2]
SPEC = TESTS.parent / "docs" / "spec" / "reservation.md"
FILES = ("reservation*.yaml", "deviceshare-reservation.yaml")

SCENARIOS: dict[int, tuple[str, ...]] = {
    1: ("reservation-that-fits-nowhere-says-why",),
    2: ("reservation-that-is-available-holds-what-it-asks-for",),
    3: ("reservation-for-one-owner-has-succeeded-with-it",),
    4: ("reservation-pinned-to-a-node-waits-for-it", "reservation-for-a-node-that-does-not-exist-says-so"),
    5: (
        "reservation-beside-one-of-the-default-policy-must-not-have-another-policy",
        "reservations-of-policies-that-contradict-each-other-say-so",
    ),
    6: ("reservation-that-is-restricted-gives-no-more-than-its-own",),
    7: ("reservation-that-is-aligned-gives-what-is-free-besides",),
    8: ("reservation-after-reservation-is-tried-for-an-owner",),
    9: ("reservation-by-name-says-how-much-it-has-left",),
    10: ("reservation-for-one-pod-takes-no-second-one", "reservation-of-a-number-of-pods-takes-no-more"),
    11: ("reservation-keeps-an-inner-part-from-its-owners",),
    12: ("reservation-that-is-unschedulable-takes-no-new-owners",),
    13: ("reservation-taints-count-for-pods-with-an-affinity",),
    14: ("reservation-affinity-reads-the-nodes-labels-too", "reservation-affinity-reads-reservations-labels-alone-with-the-gate"),
    15: ("reservation-has-to-match-exactly-where-the-pod-says-so",),
    16: ("reservation-that-is-filled-best-is-chosen",),
    17: ("reservation-with-the-smallest-order-is-used-up-first",),
    18: ("reservation-is-ignored-where-the-pod-says-so",),
    19: ("reservation-of-a-host-port-gives-it-to-one-owner",),
    20: ("reservation-takes-part-in-anti-affinity-as-a-pod-of-its-template",),
    21: ("reservation-spread-over-zones-is-replaced-by-its-owners",),
    22: ("reservation-links-are-known-after-a-restart",),
    24: ("reservation-gets-back-what-an-owner-leaves",),
    25: ("reservation-follows-an-owner-that-is-resized",),
    26: ("reservation-expires-when-its-ttl-is-over",),
    27: ("reservation-without-a-ttl-does-not-expire",),
    28: (
        "reservation-that-has-ended-is-deleted",
        "reservation-that-has-ended-is-kept-where-that-is-asked-for",
        "reservation-whose-node-is-gone-ends",
    ),
    29: ("pre-allocation-needs-the-policy-restricted",),
    30: ("pre-allocation-takes-over-the-pod-that-runs",),
    31: ("pre-allocation-that-is-required-waits-for-a-pod",),
    32: ("pre-allocation-in-cluster-mode-takes-several-pods-by-priority",),
    33: ("pre-allocation-takes-over-no-pod-where-it-prefers-not-to",),
    34: ("reservation-preempts-pods-of-lower-priority", "reservation-preempts-no-pod-that-says-so"),
    35: ("reservation-for-one-owner-is-given-to-one-of-two-that-come-at-once",),
    36: ("reservation-waiting-on-permit-is-gone-when-it-is-deleted",),
    37: ("reservations-that-a-pod-cannot-use-are-counted-in-its-condition", "reservation-by-name-among-others-counts-them"),
    38: ("reservation-endpoint-answers-for-a-node-without-any", "reservation-by-name-says-how-much-it-has-left"),
    39: ("reservation-of-limits-alone-holds-nothing",),
    40: ("reservation-affinity-that-cannot-be-read-is-an-error-of-its-pod",),
    41: ("reservation-of-cpus-gives-them-to-its-owner",),
}
"""By line, names of scenarios."""
END_TO_END: dict[int, tuple[str, ...]] = {
    23: (
        "test_reservation_undo.py::test_the_link_is_taken_off_a_pod_that_could_not_be_bound",
        "../../e2e/test_reservation_on_api_server.py::test_the_link_to_a_reservation_is_taken_off_when_the_api_server_refuses_the_bind",
    ),
    38: ("../../e2e/test_reservation_on_api_server.py::test_a_scheduler_that_does_not_lead_answers_503_for_reservations",),
}
"""Lines that a scenario cannot play: a bind that an API server refuses, and a standby. Held by tests of a real control plane."""

DECISIONS: dict[int, tuple[str, ...]] = {
    1: ("reservation-that-is-aligned-gives-what-is-free-besides",),
    2: ("reservation-for-one-owner-is-given-to-one-of-two-that-come-at-once",),
    3: ("reservation-without-a-node-does-not-expire", "reservation-without-a-node-expires-where-that-is-asked-for"),
    4: ("pre-allocation-prefers-nodes-where-it-takes-fewer-pods",),
    5: ("test_reservation_decisions.py::test_d5_of_reservations_that_are_filled_alike_the_oldest_is_given_then_the_first_name",),
    6: ("operating-pod-lends-its-cpus",),
    7: ("test_reservation_decisions.py::test_d7_an_owner_that_is_named_with_the_api_version_of_pods_is_one",),
    8: ("pre-allocation-takes-no-pod-of-another-reservation",),
    9: (
        "test_reservation_decisions.py::test_d9_a_reservation_that_is_nominated_for_a_node_counts_once_however_often_others_are_looked_at",
    ),
    10: ("reservation-is-no-victim",),
    11: (
        "test_reservation_decisions.py::test_d11_nothing_is_left_of_a_reservation_that_is_deleted_while_it_is_given_its_node",
        "test_reservation_undo.py::test_nothing_is_left_of_a_reservation_that_is_deleted_while_its_status_is_written",
    ),
    12: (
        "reservation-of-an-amount-that-is-none-says-so",
        "reservation-of-a-negative-amount-says-so",
        "../scheduler/test_scheduler_reservations.py::test_one_that_cannot_be_scheduled_as_it_is_says_so_once_and_is_counted",
        "test_reserve_pods.py::test_what_a_reservation_must_have",
    ),
    13: ("test_reservation_decisions.py::test_d13_what_a_reservation_has_is_shown_as_long_as_it_is_there",),
    14: ("reservation-preempts-nothing-unless-that-is-enabled", "reservation-under-a-quota-that-lends-waits-until-a-pod-of-it-asks"),
    15: (
        "test_reservation_decisions.py::test_d15_a_pod_that_is_seen_before_its_reservation_is_its_owner_once_that_is_seen",
        "test_reservation_decisions.py::test_d15_a_pod_whose_reservation_is_not_there_is_looked_at_without_it",
    ),
    16: (
        "test_preallocation_kills.py::test_a_request_that_fails_on_the_way_leaves_no_links_behind",
        "test_preallocation_kills.py::test_pods_are_as_they_were_once_their_reservation_could_not_be_given_its_node",
    ),
    17: ("device-reservation-gives-no-card-of-another-one",),
    18: ("reservation-that-is-deleted-gives-its-room-to-those-that-wait",),
    19: ("reservation-of-a-host-port-gives-it-to-one-owner",),
    20: (
        "reservation-that-becomes-available-moves-its-owners",
        "reservation-keeps-what-an-owner-leaves-from-a-stranger-that-waits",
    ),
}
"""By decision, names of scenarios, and tests in files beside this one."""


def part(heading: str) -> str:
    return SPEC.read_text(encoding="utf-8").partition(f"## {heading}")[2].partition("\n## ")[0]


def scenarios() -> tuple[set[str], set[str]]:
    """Return the names of all scenarios, and of those that are played on a real control plane."""
    files = tuple(str(path) for pattern in FILES for path in sorted((TESTS / "scenarios").glob(pattern)))
    plans, _ = plan_scenarios(ScenarioOptions(paths=files, limits=BackendLimits(max_wait=REAL_MAX_WAIT)))
    return {plan.scenario.name for plan in plans}, {plan.scenario.name for plan in plans if not plan.skip}


def test_each_line_of_the_checklist_and_each_decision_is_held() -> None:
    lines = [int(number) for number in re.findall(r"^(\d+)\. ", part("19. What must hold"), re.MULTILINE)]
    decisions = [int(number) for number in re.findall(r"^\| D(\d+) \|", part("17. Decisions"), re.MULTILINE)]
    assert lines == sorted(SCENARIOS.keys() | END_TO_END.keys()) == list(range(1, 42))
    assert decisions == list(DECISIONS) == list(range(1, 21))


def test_the_scenarios_exist_and_those_of_lines_are_played_on_a_real_control_plane() -> None:
    known, played = scenarios()
    assert {name for names in SCENARIOS.values() for name in names} - played == set()
    other = {name for held in (END_TO_END, DECISIONS) for names in held.values() for name in names if "::" not in name}
    assert other - known == set()


@pytest.mark.parametrize("named", [name for held in (END_TO_END, DECISIONS) for names in held.values() for name in names if "::" in name])
def test_the_tests_exist(named: str) -> None:
    path, _, test = named.partition("::")
    assert re.search(rf"def {test}\(", (Path(__file__).parent / path).read_text(encoding="utf-8"))
