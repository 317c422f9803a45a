"""DefaultBinder: framework.md §6 and §11."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.builders import pod
from support.plugins import PluginBench
from support.virtual_loop import run_virtual

from koordsched.api.core import Pod
from koordsched.api.kinds import POD
from koordsched.clock import VirtualClock
from koordsched.cluster.port import Binding, ClusterError, Conflict, Forbidden, NotFound, OutcomeUnknown, Ref, ServerError, TooManyRequests
from koordsched.framework.cycle_state import Annotations, CycleState, MetadataChanges, annotate_with_binding
from koordsched.framework.status import Status, error
from koordsched.plugins.defaultbinder.plugin import TRIES, DefaultBinder

BUSY = ServerError("etcdserver: leader changed")
LOST = OutcomeUnknown("connection reset")
PENDING = pod("p", "ns").build()
BOUND_HERE = pod("p", "ns").on("n1").build()
BOUND_ELSEWHERE = pod("p", "ns").on("n2").build()


class ScriptedCluster:
    """Answers bindings and reads from two lists, the last answer of which is repeated. None: the binding succeeds."""

    def __init__(self, bindings: Sequence[ClusterError | None], reads: Sequence[Pod | ClusterError] = ()) -> None:
        self._bindings = bindings
        self._reads = reads
        self.bound: list[Binding] = []
        self.read: list[Ref] = []

    async def bind(self, binding: Binding) -> None:
        self.bound.append(binding)
        answer = self._bindings[min(len(self.bound), len(self._bindings)) - 1]
        if answer is not None:
            raise answer

    async def get(self, ref: Ref) -> Pod:
        self.read.append(ref)
        answer = self._reads[min(len(self.read), len(self._reads)) - 1]
        if isinstance(answer, ClusterError):
            raise answer
        return answer


def bind(cluster: ScriptedCluster, annotations: Annotations | None = None) -> tuple[Status | None, float]:
    """Return the answer, and how many seconds it took. annotations: that were left to the binding."""

    async def body(clock: VirtualClock) -> tuple[Status | None, float]:
        begun = clock.now()
        state = CycleState()
        assert annotate_with_binding(state, MetadataChanges(POD, PENDING, annotations or {}, {}))
        status = await DefaultBinder(PluginBench(cluster=cluster)).bind(state, pod("p", "ns").info(), "n1")
        return status, clock.now() - begun

    return run_virtual(body)


def test_the_pod_is_bound_with_one_request() -> None:
    cluster = ScriptedCluster([None])
    assert bind(cluster) == (None, 0.0)
    assert cluster.bound == [Binding(namespace="ns", name="p", uid="uid-ns-p", node="n1")]
    assert cluster.read == []


def test_annotations_that_were_left_to_the_binding_go_with_it() -> None:
    cluster = ScriptedCluster([None])
    assert bind(cluster, {"a": "1"}) == (None, 0.0)
    assert cluster.bound == [Binding(namespace="ns", name="p", uid="uid-ns-p", node="n1", annotations={"a": "1"})]


@pytest.mark.parametrize(("value", "succeeds"), [("1", True), ("2", False)])
def test_a_pod_on_the_node_without_the_annotations_was_bound_by_another_scheduler(value: str, succeeds: bool) -> None:
    found = pod("p", "ns").annotation("a", value).annotation("b", "x").on("n1").build()
    assert bind(ScriptedCluster([LOST], [found]), {"a": "1"})[0] == (None if succeeds else error(LOST.message))


@pytest.mark.parametrize("refusal", [NotFound('pods "p" not found'), Forbidden("no")])
def test_a_final_refusal_is_an_error_with_its_text(refusal: ClusterError) -> None:
    cluster = ScriptedCluster([refusal])
    assert bind(cluster) == (error(refusal.message), 0.0)
    assert (len(cluster.bound), cluster.read) == (1, [])


def test_a_server_that_is_busy_is_asked_again_when_it_says() -> None:
    cluster = ScriptedCluster([TooManyRequests("later", retry_after=7.0), BUSY, None])
    status, seconds = bind(cluster)
    assert status is None
    assert 7.0 < seconds < 8.0
    assert (len(cluster.bound), cluster.read) == (3, [])


def test_a_server_that_stays_busy_is_given_up() -> None:
    cluster = ScriptedCluster([BUSY])
    assert bind(cluster)[0] == error(BUSY.message)
    assert (len(cluster.bound), cluster.read) == (TRIES, [])


@pytest.mark.parametrize("refusal", [Conflict("pod p is already assigned to node"), LOST])
@pytest.mark.parametrize(
    ("found", "succeeds"),
    [
        (BOUND_HERE, True),
        (BOUND_ELSEWHERE, False),
        (pod("p", "ns").uid("another").on("n1").build(), False),
        (NotFound("gone"), False),
    ],
)
def test_an_open_outcome_is_settled_by_reading_the_pod(refusal: ClusterError, found: Pod | ClusterError, succeeds: bool) -> None:
    cluster = ScriptedCluster([refusal], [found])
    assert bind(cluster) == (None if succeeds else error(refusal.message), 0.0)
    assert (len(cluster.bound), cluster.read) == (1, [Ref(POD, "ns", "p")])


def test_a_conflict_about_a_pod_that_is_not_bound_is_final() -> None:
    cluster = ScriptedCluster([Conflict("pod p is being deleted, cannot be assigned to a host")], [PENDING])
    assert bind(cluster)[0] == error("pod p is being deleted, cannot be assigned to a host")
    assert len(cluster.bound) == 1


def test_a_binding_that_did_not_arrive_is_sent_again() -> None:
    cluster = ScriptedCluster([LOST, None], [PENDING])
    assert bind(cluster)[0] is None
    assert (len(cluster.bound), len(cluster.read)) == (2, 1)


def test_a_binding_that_arrived_late_is_found_when_it_is_sent_again() -> None:
    cluster = ScriptedCluster([LOST, Conflict("pod p is already assigned to node")], [PENDING, BOUND_HERE])
    assert bind(cluster)[0] is None
    assert (len(cluster.bound), len(cluster.read)) == (2, 2)


def test_while_the_cluster_cannot_be_asked_an_open_outcome_stays_open() -> None:
    cluster = ScriptedCluster([LOST], [BUSY] * 50 + [BOUND_HERE])
    status, seconds = bind(cluster)
    assert status is None
    assert seconds > 50
    assert (len(cluster.bound), len(cluster.read)) == (1, 51)


def test_the_outcome_of_the_last_try_is_settled_too() -> None:
    cluster = ScriptedCluster([LOST], [PENDING] * (TRIES - 1) + [BOUND_HERE])
    assert bind(cluster)[0] is None
    assert (len(cluster.bound), len(cluster.read)) == (TRIES, TRIES)
