"""DefaultPreBind: frameworkext.md §1.1 and §6: one patch with the pod's uid, sent again for reasons that pass."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.builders import PodBuilder, node, pod
from support.plugins import PluginBench
from support.virtual_loop import run_virtual

from koordsched.api.kinds import NODE, POD, RESERVATION
from koordsched.api.koordinator.reservations import Reservation
from koordsched.api.meta import Object, ObjectMeta
from koordsched.clock import VirtualClock
from koordsched.cluster.port import (
    ClusterError,
    Conflict,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    Patch,
    PatchType,
    Ref,
    ServerError,
    TooManyRequests,
)
from koordsched.framework.cycle_state import Annotations, MetadataChanges
from koordsched.framework.status import Status, error
from koordsched.plugins.defaultprebind.plugin import DefaultPreBind

PENDING = pod("p", "ns")
WRITTEN = PENDING.annotation("a", "1").build()


class ScriptedCluster:
    """Answers patches from a list, the last answer of which is repeated."""

    def __init__(self, *answers: Object | ClusterError) -> None:
        self._answers = answers
        self.sent: list[tuple[Ref, Patch]] = []

    async def patch(self, ref: Ref, patch: Patch) -> Object:
        self.sent.append((ref, patch))
        answer = self._answers[min(len(self.sent), len(self._answers)) - 1]
        if isinstance(answer, ClusterError):
            raise answer
        return answer


def patch(cluster: ScriptedCluster, annotations: Annotations, builder: PodBuilder = PENDING) -> tuple[Status | None, float]:
    """Return the answer, and how many seconds it took."""
    return write(cluster, MetadataChanges(POD, builder.build(), annotations, {}))


def write(cluster: ScriptedCluster, changes: MetadataChanges) -> tuple[Status | None, float]:
    async def body(clock: VirtualClock) -> tuple[Status | None, float]:
        begun = clock.now()
        status = await DefaultPreBind(PluginBench(cluster=cluster)).patch(changes)
        return status, round(clock.now() - begun, 3)

    return run_virtual(body)


def test_all_annotations_go_in_one_patch_that_names_the_pods_uid() -> None:
    cluster = ScriptedCluster(WRITTEN)
    assert patch(cluster, {"a": "1", "b": None}, PENDING.annotation("b", "old")) == (None, 0.0)
    body = {"metadata": {"uid": "uid-ns-p", "annotations": {"a": "1", "b": None}}}
    assert cluster.sent == [(Ref(POD, "ns", "p"), Patch(body, PatchType.STRATEGIC))]


def test_what_the_pod_says_already_is_not_written_again() -> None:
    cluster = ScriptedCluster(WRITTEN)
    assert patch(cluster, {"a": "1", "b": None}, PENDING.annotation("a", "1")) == (None, 0.0)
    assert cluster.sent == []


@pytest.mark.parametrize(
    "passing", [Conflict("changed"), TooManyRequests("busy", retry_after=0), OutcomeUnknown("reset"), ServerError("x")]
)
def test_what_may_pass_is_tried_four_times_with_growing_delays(passing: ClusterError) -> None:
    cluster = ScriptedCluster(passing, passing, passing, WRITTEN)
    status, seconds = patch(cluster, {"a": "1"})
    assert status is None
    assert 0.31 <= seconds <= 0.31 * 1.2  # 0.01 + 0.05 + 0.25 s, each lengthened by chance
    assert len(cluster.sent) == 4
    cluster = ScriptedCluster(passing)
    status, seconds = patch(cluster, {"a": "1"})
    assert status == error(passing.message)
    assert 0.31 <= seconds <= 0.31 * 1.2
    assert len(cluster.sent) == 4


def test_a_busy_server_is_given_the_time_it_asks_for() -> None:
    cluster = ScriptedCluster(TooManyRequests("busy", retry_after=3.0), WRITTEN)
    assert patch(cluster, {"a": "1"}) == (None, 3.0)


@pytest.mark.parametrize("final", [NotFound('pods "p" not found'), Forbidden("no")])
def test_a_final_refusal_is_an_error_with_its_text(final: ClusterError) -> None:
    cluster = ScriptedCluster(final)
    assert patch(cluster, {"a": "1"}) == (error(final.message), 0.0)
    assert len(cluster.sent) == 1


def test_a_pod_that_turns_out_to_be_terminating_is_not_bound() -> None:
    cluster = ScriptedCluster(PENDING.deleted_at("2026-01-01T00:00:00Z").build())
    assert patch(cluster, {"a": "1"}) == (error("pod is being deleted"), 0.0)


# Labels, Nodes and Reservations


def test_labels_go_with_the_annotations_and_what_is_so_already_is_left_out() -> None:
    cluster = ScriptedCluster(WRITTEN)
    seen = PENDING.label("old", "1").label("same", "1").build()
    changes = MetadataChanges(POD, seen, {"a": "1"}, {"old": None, "same": "1", "new": "2"})
    assert write(cluster, changes) == (None, 0.0)
    body = {"metadata": {"uid": "uid-ns-p", "annotations": {"a": "1"}, "labels": {"old": None, "new": "2"}}}
    assert cluster.sent == [(Ref(POD, "ns", "p"), Patch(body, PatchType.STRATEGIC))]


def test_a_node_is_patched_as_a_pod_is() -> None:
    cluster = ScriptedCluster(node("n1").build())
    assert write(cluster, MetadataChanges(NODE, node("n1").build(), {}, {"l": "1"})) == (None, 0.0)
    assert cluster.sent == [(Ref(NODE, "", "n1"), Patch({"metadata": {"uid": "uid-n1", "labels": {"l": "1"}}}, PatchType.STRATEGIC))]


RESERVED = Reservation(metadata=ObjectMeta(name="r", uid="u"))


def test_a_reservation_takes_a_merge_patch() -> None:
    cluster = ScriptedCluster(RESERVED)
    assert write(cluster, MetadataChanges(RESERVATION, RESERVED, {"a": "1"}, {})) == (None, 0.0)
    assert cluster.sent == [(Ref(RESERVATION, "", "r"), Patch({"metadata": {"uid": "u", "annotations": {"a": "1"}}}, PatchType.MERGE))]


def test_a_reservation_or_node_that_turns_out_to_be_terminating_holds_the_pod_back() -> None:
    terminating = ObjectMeta(name="r", uid="u", deletion_timestamp="2026-01-01T00:00:00Z")
    cluster = ScriptedCluster(Reservation(metadata=terminating))
    assert write(cluster, MetadataChanges(RESERVATION, RESERVED, {"a": "1"}, {})) == (error("pod is being deleted"), 0.0)
    gone = node("n1").build()
    cluster = ScriptedCluster(replace(gone, metadata=terminating))
    assert write(cluster, MetadataChanges(NODE, gone, {"a": "1"}, {})) == (error('node "n1" is being deleted'), 0.0)
