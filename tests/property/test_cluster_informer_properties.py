"""Whatever happens to the cluster and to the connection, the informer's store ends up equal to a fresh list, and its story is gapless."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.manifests import pod_manifest

from koordsched.api.kinds import POD
from koordsched.clock import VirtualClock, VirtualTimeLoop
from koordsched.cluster.informer import Informer
from koordsched.cluster.memory import Fault, Faults, MemoryCluster, MemoryClusterOptions
from koordsched.cluster.port import Binding, ClusterError, Gone, Patch, Ref, ServerError, TooManyRequests

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from koordsched.api.core import Pod
    from koordsched.cluster.object_store import Arrival, FinalState

NAMES = st.sampled_from(["a", "b", "c", "d"])
SELECTOR = "status.phase!=Succeeded"
ERRORS = {
    "server": lambda: ServerError("down"),
    "gone": lambda: Gone("too old"),
    "busy": lambda: TooManyRequests("slow down", retry_after=3),
}


class Follower:
    """Rebuilds the store from what a handler hears, and refuses a story with gaps."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}

    def on_add(self, obj: Pod, arrival: Arrival) -> None:
        assert obj.metadata.name not in self.pods
        self.pods[obj.metadata.name] = obj

    def on_update(self, old: Pod, new: Pod) -> None:
        assert self.pods[old.metadata.name] is old
        assert old.metadata.uid == new.metadata.uid
        assert int(old.metadata.resource_version) < int(new.metadata.resource_version)
        self.pods[new.metadata.name] = new

    def on_delete(self, obj: Pod, final_state: FinalState) -> None:
        assert self.pods.pop(obj.metadata.name).metadata.uid == obj.metadata.uid


class InformerMachine(RuleBasedStateMachine):
    """Pods are written and the connection fails, in any order; after the faults are over both sides must agree."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualTimeLoop)
        self.loop = self.runner.get_loop()
        assert isinstance(self.loop, VirtualTimeLoop)
        self.clock = VirtualClock(self.loop)

    @initialize(
        seed=st.integers(0, 9), history=st.sampled_from([2, 1000]), cut=st.sampled_from([0.0, 3.0]), pods=st.lists(NAMES, unique=True)
    )
    def start(self, seed: int, history: int, cut: float, pods: list[str]) -> None:
        options = MemoryClusterOptions(history=history, watch_seconds=(20, 40), bookmark_interval=10)
        self.cluster = MemoryCluster(self.clock, random=Random(seed), faults=Faults(cut_watches_every=cut), options=options)
        for name in pods:
            self.create(name)
        self.informer: Informer[Pod] = Informer(self.cluster, POD, self.clock, Random(seed), SELECTOR)
        self.follower = Follower()
        self.informer.add_handler(self.follower)
        self.task = self.loop.create_task(self.informer.run())

    @rule(name=NAMES)
    def create(self, name: str) -> None:
        self._attempt(self.cluster.create(POD, pod_manifest(name)))

    @rule(name=NAMES)
    def bind(self, name: str) -> None:
        self._attempt(self.cluster.bind(Binding("default", name, "", "n1")))

    @rule(name=NAMES, value=st.sampled_from(["1", "2"]))
    def label(self, name: str, value: str) -> None:
        self._attempt(self.cluster.patch(Ref(POD, "default", name), Patch({"metadata": {"labels": {"x": value}}})))

    @rule(name=NAMES, phase=st.sampled_from(["Succeeded", "Running"]))
    def set_phase(self, name: str, phase: str) -> None:
        self._attempt(self.cluster.patch(Ref(POD, "default", name), Patch({"status": {"phase": phase}}, subresource="status")))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self._attempt(self.cluster.delete(Ref(POD, "default", name)))

    @rule(error=st.sampled_from([None, "server", "gone"]))
    def cut(self, error: str | None) -> None:
        self.cluster.cut_watches(ERRORS[error] if error else None)

    @rule()
    def compact(self) -> None:
        self.cluster.compact()

    @rule(verb=st.sampled_from(["list", "watch"]), error=st.sampled_from(sorted(ERRORS)), times=st.integers(1, 3))
    def break_next(self, verb: str, error: str, times: int) -> None:
        self.cluster.faults.rules.append(Fault(verb="list" if verb == "list" else "watch", kind=POD, times=times, error=ERRORS[error]))

    @rule()
    def stop_serving(self) -> None:
        self.cluster.undefine(POD)

    @rule()
    def serve_again(self) -> None:
        self.cluster.define(POD)

    @rule(seconds=st.sampled_from([0.0, 0.1, 5.0, 45.0]))
    def let_pass(self, seconds: float) -> None:
        self.runner.run(asyncio.sleep(seconds))

    @rule()
    def settle_and_compare(self) -> None:
        """Lift the faults and wait longer than any backoff and than the probe for a missing kind."""
        self.cluster.faults.rules.clear()
        self.cluster.define(POD)
        self.runner.run(asyncio.sleep(120))
        listed = self.runner.run(self.cluster.list(POD, field_selector=SELECTOR)).items
        assert sorted(self.informer.store.items()) == [(f"default/{pod.metadata.name}", pod) for pod in listed]
        assert self.informer.synced.is_set()

    @invariant()
    def the_handler_knows_what_the_store_holds(self) -> None:
        if hasattr(self, "informer"):
            assert list(self.follower.pods.values()) == list(self.informer.store.values())
            assert self.informer.handler_errors == 0
            assert not self.task.done()

    def teardown(self) -> None:
        if hasattr(self, "informer"):
            self.settle_and_compare()
        self.runner.close()  # cancels the informer and waits for its end

    def _attempt(self, request: Coroutine[Any, Any, object]) -> None:
        """Make a request that may be refused, as for a pod that does not exist."""
        try:
            self.runner.run(request)
        except ClusterError:
            return


TestInformer = InformerMachine.TestCase
TestInformer.settings = settings(max_examples=60, stateful_step_count=25)
