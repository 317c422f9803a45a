"""DefaultBinder: framework.md §6 and §11."""

from __future__ import annotations

import pytest
from support.builders import pod
from support.plugins import PluginBench

from koordsched.api.core import Pod
from koordsched.api.kinds import POD
from koordsched.cluster.port import Binding, ClusterError, Conflict, NotFound, OutcomeUnknown, Ref, ServerError
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.status import Status, error
from koordsched.plugins.defaultbinder.plugin import DefaultBinder


class RefusingCluster:
    """Answers every binding with `refusal`, and shows `stored` when asked for the pod."""

    def __init__(self, refusal: ClusterError | None = None, stored: Pod | ClusterError | None = None) -> None:
        self.refusal = refusal
        self.stored = stored
        self.bindings: list[Binding] = []
        self.read: list[Ref] = []

    async def bind(self, binding: Binding) -> None:
        self.bindings.append(binding)
        if self.refusal:
            raise self.refusal

    async def get(self, ref: Ref) -> Pod:
        self.read.append(ref)
        if isinstance(self.stored, ClusterError):
            raise self.stored
        assert self.stored is not None
        return self.stored


async def bind(cluster: RefusingCluster) -> Status | None:
    return await DefaultBinder(PluginBench(cluster=cluster)).bind(CycleState(), pod("p", "ns").info(), "n1")


async def test_the_pod_is_bound_with_one_request() -> None:
    cluster = RefusingCluster()
    assert await bind(cluster) is None
    assert cluster.bindings == [Binding(namespace="ns", name="p", uid="uid-ns-p", node="n1")]
    assert cluster.read == []


@pytest.mark.parametrize("refusal", [NotFound('pods "p" not found'), ServerError("etcdserver: request timed out")])
async def test_a_refusal_is_an_error_with_its_text(refusal: ClusterError) -> None:
    cluster = RefusingCluster(refusal)
    assert await bind(cluster) == error(refusal.message)
    assert cluster.read == []


BOUND_HERE = pod("p", "ns").on("n1").build()


@pytest.mark.parametrize("refusal", [Conflict("pod p is already assigned to node"), OutcomeUnknown("connection reset")])
@pytest.mark.parametrize(
    ("stored", "succeeds"),
    [
        (BOUND_HERE, True),
        (pod("p", "ns").on("n2").build(), False),
        (pod("p", "ns").build(), False),
        (pod("p", "ns").uid("another").on("n1").build(), False),
        (NotFound("gone"), False),
    ],
)
async def test_an_open_outcome_is_settled_by_reading_the_pod(refusal: ClusterError, stored: Pod | ClusterError, succeeds: bool) -> None:
    cluster = RefusingCluster(refusal, stored)
    assert await bind(cluster) == (None if succeeds else error(refusal.message))
    assert cluster.read == [Ref(POD, "ns", "p")]
