"""Labels and annotations whose value is none: one event for each, which names the key, what was expected, the value and what counts."""

from __future__ import annotations

import asyncio

import pytest
from support.embedded import AnsweringCluster
from support.fakes import embedded, node_manifest, pod_manifest
from support.virtual_loop import run_virtual

from koordsched.api.kinds import EVENT, NODE, POD, RESERVATION
from koordsched.api.koordinator.priority import sub_priority
from koordsched.api.koordinator.reading import Malformed
from koordsched.api.koordinator.reservation_links import RESTRICTED_OPTIONS
from koordsched.clock import VirtualClock
from koordsched.cluster.port import Ref
from koordsched.config import load_config_object
from koordsched.scheduler.known_values import ANNOTATIONS, COUNT, DURATION, LABELS, NUMBER, SUB_PRIORITIES, KnownValues

QOS, PRIORITY = "koordinator.sh/qosClass", "koordinator.sh/priority-class"
NOTE = f'{QOS}: expected BE, LS, LSE, LSR or SYSTEM: "LRS"; it counts as if it were not there'

WITH_RESERVATIONS = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": [{"name": "Reservation"}]}}}],
}


def notes(world: AnsweringCluster, name: str) -> list[tuple[str, int]]:
    """Return what events of InvalidAnnotation say of an object, each with how often it occurred."""
    events = [raw for raw in world.cluster.raws(EVENT) if raw["regarding"]["name"] == name and raw["reason"] == "InvalidAnnotation"]
    return [(raw["note"], (raw.get("series") or {}).get("count", 1)) for raw in events]


def test_a_misspelt_word_is_reported_once_and_again_when_it_comes_back() -> None:
    async def body(_clock: VirtualClock) -> None:
        async with embedded(asyncio.get_running_loop()) as world:
            await world.create(NODE, node_manifest("n1"))
            await world.start()
            made = pod_manifest("p")
            made["metadata"]["labels"] = {QOS: "LRS", PRIORITY: "koord-prod"}
            await world.create(POD, made)
            await asyncio.sleep(1)
            assert notes(world, "p") == [(NOTE, 1)]
            await world.patch(Ref(POD, "default", "p"), {"metadata": {"labels": {"other": "x"}}})
            await asyncio.sleep(1)
            assert notes(world, "p") == [(NOTE, 1)]
            for value in ("LSR", "LRS"):
                await world.patch(Ref(POD, "default", "p"), {"metadata": {"labels": {QOS: value}}})
                await asyncio.sleep(1)
            assert sum(count for _, count in notes(world, "p")) == 2
            metric = next(each for each in world.scheduler.metrics.collectors if each.name == "koord_scheduler_malformed_objects_total")
            assert [value for family in metric.collect() for labels, value in family.samples if "Pod" in labels] == [2]

    run_virtual(body)


def test_a_node_says_what_counts_instead() -> None:
    async def body(_clock: VirtualClock) -> None:
        async with embedded(asyncio.get_running_loop()) as world:
            await world.create(NODE, node_manifest("n1", **{"node.koordinator.sh/numa-allocate-strategy": "Fullest"}))
            await world.start()
            await asyncio.sleep(1)
            (note,) = notes(world, "n1")
            assert note[0].endswith('expected DistributeEvenly, LeastAllocated or MostAllocated: "Fullest"; LeastAllocated counts')

    run_virtual(body)


def test_a_reservation_that_fits_nowhere_says_all_the_same_that_no_pod_could_use_it() -> None:
    async def body(_clock: VirtualClock) -> None:
        async with embedded(asyncio.get_running_loop(), load_config_object(WITH_RESERVATIONS)) as world:
            await world.start()
            template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}
            spec = {"allocatePolicy": "Restricted", "template": template, "owners": [{"labelSelector": {}}]}
            metadata = {"name": "r", "annotations": {RESTRICTED_OPTIONS: "{"}}
            await world.create(RESERVATION, {"metadata": metadata, "spec": spec})
            await asyncio.sleep(1)
            ((note, count),) = notes(world, "r")
            assert note == f'{RESTRICTED_OPTIONS}: expected an object with resources: "{{"; a Restricted Reservation is of no use to pods'
            assert count == 1

    run_virtual(body)


@pytest.mark.parametrize("values", [values for table in (LABELS, ANNOTATIONS) for keys in table.values() for values in keys.values()])
def test_text_of_another_kind_is_no_value(values: KnownValues) -> None:
    assert not values.matches("Sometimes")
    assert not values.matches("tru e")


@pytest.mark.parametrize(
    ("values", "text", "known"),
    [
        (COUNT, "3", True),
        (COUNT, "-3", False),
        (COUNT, "3.0", False),
        (NUMBER, "-3", True),
        (NUMBER, "٣", False),
        (DURATION, "10m", True),
        (DURATION, "1h30m", True),
        (DURATION, "1.5s", True),
        (DURATION, "0", True),
        (DURATION, "10", False),
        (DURATION, "10 m", False),
    ],
)
def test_numbers_and_durations(values: KnownValues, text: str, known: bool) -> None:
    assert bool(values.matches(text)) is known


@pytest.mark.parametrize("text", ["1", "-5", "0x1f", "017", "0b11", "9999"])
def test_a_sub_priority_that_can_be_read_is_no_mistake(text: str) -> None:
    assert isinstance(sub_priority({"koordinator.sh/priority": text}), int)
    assert SUB_PRIORITIES.matches(text)


def test_a_sub_priority_that_cannot_be_read_is_one() -> None:
    with pytest.raises(Malformed):
        sub_priority({"koordinator.sh/priority": "high"})
    assert not SUB_PRIORITIES.matches("high")


def test_known_words_are_listed_in_order_and_an_empty_one_is_none_of_them() -> None:
    both, one = KnownValues.words(["b", "", "a"], "; a counts"), KnownValues.words(["a"])
    assert [bool(both.matches(text)) for text in ("a", "b", "c", "")] == [True, True, False, False]
    assert (both.expected, both.instead, one.expected) == ("expected a or b", "; a counts", "expected a")
