"""Gates by which older APIs are read, or none (frameworkext.md §1.3), and gates that change nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.fakes import config_with, embedded, node_manifest, pod_manifest

import koordsched
from koordsched.api.kinds import CSI_STORAGE_CAPACITY, NODE, POD, POD_DISRUPTION_BUDGET
from koordsched.config.features import DEFAULTS, changed_without_effect, parse_feature_gates
from koordsched.config.flags import parse_flags
from koordsched.config.gates import WITHOUT_EFFECT
from koordsched.scheduler.debugger import StandingCheck

BETA_BUDGETS = replace(POD_DISRUPTION_BUDGET, version="v1beta1")
BETA_CAPACITIES = replace(CSI_STORAGE_CAPACITY, version="v1beta1")
SECTION = Path(__file__).parents[3] / "docs" / "spec" / "frameworkext.md"


def budget(selector: dict[str, object]) -> dict[str, object]:
    metadata = {"name": "budget", "namespace": "default"}
    return {"metadata": metadata, "spec": {"selector": selector, "minAvailable": 1}, "status": {"disruptionsAllowed": 0}}


@pytest.mark.parametrize(
    ("gates", "asked", "not_asked"),
    [
        ("", {POD_DISRUPTION_BUDGET, CSI_STORAGE_CAPACITY}, {BETA_BUDGETS, BETA_CAPACITIES}),
        ("DisablePodDisruptionBudgetInformer=true", {CSI_STORAGE_CAPACITY}, {POD_DISRUPTION_BUDGET, BETA_BUDGETS}),
        ("DisableCSIStorageCapacityInformer=true", {POD_DISRUPTION_BUDGET}, {CSI_STORAGE_CAPACITY, BETA_CAPACITIES}),
        ("CompatibleCSIStorageCapacity=true", {BETA_CAPACITIES}, {CSI_STORAGE_CAPACITY}),
        ("CompatibleCSIStorageCapacity=true,CSIStorageCapacity=false", {CSI_STORAGE_CAPACITY}, {BETA_CAPACITIES}),
        ("CompatiblePodDisruptionBudget=true", {BETA_BUDGETS}, {POD_DISRUPTION_BUDGET}),
        (
            "CompatiblePodDisruptionBudget=true,DisablePodDisruptionBudgetInformer=true",
            {CSI_STORAGE_CAPACITY},
            {POD_DISRUPTION_BUDGET, BETA_BUDGETS},
        ),
    ],
)
async def test_gates_say_which_version_is_asked_for(gates: str, asked: set[object], not_asked: set[object]) -> None:
    async with embedded(asyncio.get_running_loop(), config_with({}), flags=parse_flags([f"--feature-gates={gates}"])) as world:
        await world.start()
        scheduler = world.scheduler
        assert scheduler.synced
        await StandingCheck(scheduler._sources(), scheduler._informers, scheduler.metrics).check_part()
        listed = {kind for verb, kind in world.cluster.calls if verb in {"list", "watch"}}
        assert asked <= listed
        assert not listed & not_asked


@pytest.mark.parametrize(("selector", "evicted"), [({"matchLabels": {"app": "x"}}, "n2"), ({}, "n1")])
async def test_a_budget_of_v1beta1_protects_what_it_selects_and_with_an_empty_selector_nothing(
    selector: dict[str, object], evicted: str
) -> None:
    """Both victims would make room. On n1 the less important one runs, and the budget that protects it counts first."""
    flags = parse_flags(["--feature-gates=CompatiblePodDisruptionBudget=true"])
    async with embedded(asyncio.get_running_loop(), config_with({}), flags=flags) as world:
        for name, priority in (("n1", 1), ("n2", 2)):
            await world.create(NODE, node_manifest(name, "1"))
            victim = pod_manifest(f"on-{name}", nodeName=name, priority=priority)
            victim["metadata"]["labels"] = {"app": "x"} if name == "n1" else {}
            await world.create(POD, victim)
        await world.create(BETA_BUDGETS, budget(selector))
        await world.start()
        await world.create(POD, pod_manifest("preemptor", priority=10))
        await world.sleep(10)
        left = {raw["metadata"]["name"]: raw["spec"].get("nodeName") for raw in world.cluster.raws(POD)}
        assert left["preemptor"] == evicted
        assert f"on-{evicted}" not in left


def test_every_gate_of_koordinators_acts_or_has_a_reason_why_not() -> None:
    """The names in §1.3 of the specification, each of which is named in the code that asks it, or in the table of those without effect."""
    section = SECTION.read_text().split("### 1.3 ")[1].split("### 1.4 ")[0]
    named = {word.strip("`(),.") for word in section.replace("`", " ").split()} & DEFAULTS.keys()
    assert len(named) == 26
    sources = [file for file in Path(koordsched.__file__).parent.rglob("*.py") if file.name != "gates.py"]
    code = "\n".join(file.read_text() for file in sources)
    assert WITHOUT_EFFECT.keys() <= named
    assert [name for name in named - WITHOUT_EFFECT.keys() if f'"{name}"' not in code] == []
    assert [name for name in WITHOUT_EFFECT if f'gates["{name}"]' in code] == []


def test_gates_without_effect_are_named_when_they_are_changed() -> None:
    assert changed_without_effect(parse_feature_gates([])) == {}
    changed = changed_without_effect(parse_feature_gates(["LazyReservationRestore=true,GenericEphemeralVolume=false,ResizePod=true"]))
    assert changed.keys() == {"LazyReservationRestore", "GenericEphemeralVolume"}
