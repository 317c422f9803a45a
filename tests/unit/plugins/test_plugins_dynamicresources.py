"""DynamicResources in its place: pods with claims wait, all others pass at no cost (framework.md §10.12, docs/differences.md)."""

from __future__ import annotations

from msgspec.structs import replace
from support.builders import PodBuilder, node, pod
from support.plugins import PluginBench, hint, registered

from koordsched.api.core import PodResourceClaim
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.status import SKIP, unresolvable, unschedulable
from koordsched.plugins.dynamicresources.plugin import DynamicResources
from koordsched.queue.events import ActionType, QueueingHint

REFUSAL = unresolvable("the pod has resource claims [gpu nic], which this version of koord-scheduler does not allocate")


def claiming(*names: str) -> PodBuilder:
    made = pod("claiming").build()
    return PodBuilder(replace(made, spec=replace(made.spec, resource_claims=tuple(PodResourceClaim(name) for name in names))))


def test_prefilter_refuses_a_pod_with_claims_and_skips_all_others() -> None:
    bench = PluginBench(node("n1"))
    assert bench.pre_filter(DynamicResources(), claiming("gpu", "nic")) == REFUSAL
    assert bench.pre_filter(DynamicResources(), pod()) is SKIP


async def test_postfilter_answers_what_the_reference_does_without_anything_to_free() -> None:
    diagnosis = Diagnosis(1, frozenset({"NodeResourcesFit"}), (), lambda _: None)
    for builder, said in ((pod(), "no new claims to deallocate"), (claiming("gpu"), "still not schedulable")):
        answer = await DynamicResources().post_filter(CycleState(), builder.info(), diagnosis)
        assert answer == (None, unschedulable(said))
        assert DynamicResources().expected_refusal(builder.info(), diagnosis) == unschedulable(said)
        assert not DynamicResources().may_help(builder.info(), diagnosis)


def test_a_pod_is_tried_again_when_its_own_claims_were_generated() -> None:
    plugin = DynamicResources()
    assert [known.event.action for known in registered(plugin)] == [ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM]
    own = claiming("gpu")
    assert hint(plugin, 0, own, own.build(), own.build()) is QueueingHint.QUEUE
    assert hint(plugin, 0, own, pod("other").build(), pod("other").build()) is QueueingHint.SKIP


def test_pods_with_other_claims_have_other_signatures() -> None:
    plugin = DynamicResources()
    signs = [plugin.sign(builder.info()) for builder in (pod(), claiming("gpu"), claiming("nic"))]
    assert len(set(signs)) == 3
