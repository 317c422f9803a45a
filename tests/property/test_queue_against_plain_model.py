"""The queue against the plainest model of kube-scheduler's: every pod asked alone, all that an event may help moved at once, no probes.

With each shape at a priority of its own, and no pod backing off, both must bind the same pods to the same nodes at every step. As long as
only filters refuse, the queue must try shapes in the same order and only leave out attempts that the model makes in vain. (What is no
filter, here the quota, no probe can foresee.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from support.queue_world import Need, World
from support.queueing import HandClock, RememberedMetrics

from koordsched.api.meta import Object
from koordsched.queue.events import ASSIGNED_POD_DELETE, ClusterEvent, QueueingHint

Tried = list[Need]
Happened = tuple[ClusterEvent, Object | None, Object | None]

needs = st.builds(Need, room=st.integers(1, 3), level=st.integers(0, 2))
offers = st.builds(Need, room=st.integers(0, 7), level=st.integers(0, 2))
filter_steps = st.one_of(
    st.tuples(st.just("add"), needs, st.integers(1, 4)),
    st.tuples(st.just("node"), st.sampled_from(["n0", "n1", "n2"]), offers),
    st.tuples(st.just("delete"), st.integers(0, 50)),
)
quota_steps = st.tuples(st.just("quota"), st.integers(0, 8))


def priority(need: Need) -> int:
    return 10 * need.room + need.level


class PlainModel:
    """Pods in two lists."""

    def __init__(self) -> None:
        self.world = World()
        self.active: list[str] = []  # uids, in order of arrival
        self.waiting: dict[str, frozenset[str]] = {}  # uid -> the plugins that refused it, in order of refusal

    def add(self, need: Need, copies: int, first: int) -> None:
        for i in range(copies):
            self.active.append(self.world.pod(f"p{first + i}", need).uid)

    def happened(self, event: ClusterEvent, old: Object | None, new: Object | None) -> None:
        for uid, rejectors in list(self.waiting.items()):
            if any(self._helps(uid, plugin, (event, old, new)) for plugin in rejectors):
                del self.waiting[uid]
                self.active.append(uid)

    def drain(self) -> Tried:
        tried = []
        while self.active:
            uid = min(self.active, key=lambda uid: -priority(self.world.needs[uid]))  # the first of the highest
            self.active.remove(uid)
            need = self.world.needs[uid]
            tried.append(need)
            outcome = self.world.attempt(need)
            if outcome.node:
                self.world.bind(need, outcome.node)
            else:
                self.waiting[uid] = outcome.rejectors
        return tried

    def _helps(self, uid: str, plugin: str, happened: Happened) -> bool:
        event, old, new = happened
        pod = self.world.pod(uid.removeprefix("uid-default-"), self.world.needs[uid])
        return any(
            known.hint is None or known.hint(pod, old, new) is QueueingHint.QUEUE
            for known in self.world.hints[plugin]
            if known.event.matches(event)
        )


class RealQueue:
    """The queue, driven by the same steps."""

    def __init__(self, *, names_rejectors: bool) -> None:
        self.world = World()
        self.clock = HandClock()
        self.queue = self.world.queue(self.clock, RememberedMetrics(), names_rejectors=names_rejectors)

    def add(self, need: Need, copies: int, first: int) -> None:
        for i in range(copies):
            self.queue.add(self.world.pod(f"p{first + i}", need, priority=priority(need)))

    def happened(self, event: ClusterEvent, old: Object | None, new: Object | None) -> None:
        self.clock.time += 60
        self.queue.move_all(event, old, new)

    def drain(self) -> Tried:
        tried = []
        while (info := self.queue.pop()) is not None:
            need = self.world.needs[info.uid]
            tried.append(need)
            outcome = self.world.attempt(need)
            if outcome.node:
                self.world.bind(need, outcome.node)
                self.queue.done(info.uid)
            else:
                info.unschedulable_plugins = set(outcome.rejectors)
                info.rejected_in_filter = outcome.in_filter
                self.queue.add_unschedulable_if_not_present(info)
            self.queue.check_invariants()
        return tried

    def waiting(self) -> list[Need]:
        return sorted(self.world.needs[info.uid] for info in self.queue.pending())


def changes(world: World, step: Sequence[object]) -> list[Happened]:
    """Apply a step to a world and return the events."""
    match step:
        case ("node", str(name), Need() as offer):
            return list(world.set_node(name, offer))
        case ("quota", int(quota)):
            return [world.set_quota(quota)]
        case ("delete", int(index)) if world.bound:
            world.unbind(index)
            return [(ASSIGNED_POD_DELETE, None, None)]
    return []


def is_subsequence(part: Iterable[Need], whole: Iterable[Need]) -> bool:
    rest = iter(whole)
    return all(item in rest for item in part)


class Pair:
    """Both, side by side, in clusters of one small node."""

    def __init__(self, *, names_rejectors: bool) -> None:
        self.model = PlainModel()
        self.real = RealQueue(names_rejectors=names_rejectors)
        self._added = 0
        for world in (self.model.world, self.real.world):
            world.set_node("n0", Need(0, 0))

    def do(self, step: Sequence[object]) -> tuple[Tried, Tried]:
        """Take a step and return what was tried by the queue and by the model."""
        match step:
            case ("add", Need() as need, int(copies)):
                self.model.add(need, copies, self._added)
                self.real.add(need, copies, self._added)
                self._added += copies
        for event in changes(self.model.world, step):
            self.model.happened(*event)
        for event in changes(self.real.world, step):
            self.real.happened(*event)
        return self.real.drain(), self.model.drain()

    def check_same_outcome(self) -> None:
        assert sorted(self.real.world.bound) == sorted(self.model.world.bound)
        assert self.real.waiting() == sorted(self.model.world.needs[uid] for uid in self.model.waiting)


@settings(max_examples=100)
@given(names_rejectors=st.booleans(), happening=st.lists(st.one_of(filter_steps, quota_steps), max_size=25))
def test_the_same_pods_are_bound_at_every_step(names_rejectors: bool, happening: list[tuple[object, ...]]) -> None:
    pair = Pair(names_rejectors=names_rejectors)
    for step in happening:
        pair.do(step)
        pair.check_same_outcome()


@settings(max_examples=100)
@given(names_rejectors=st.booleans(), happening=st.lists(filter_steps, max_size=25))
def test_attempts_come_in_the_same_order_and_only_vain_ones_are_left_out(
    names_rejectors: bool, happening: list[tuple[object, ...]]
) -> None:
    pair = Pair(names_rejectors=names_rejectors)
    pair.do(("quota", 1000))
    for step in happening:
        tried, tried_by_model = pair.do(step)
        assert is_subsequence(tried, tried_by_model)
        pair.check_same_outcome()
