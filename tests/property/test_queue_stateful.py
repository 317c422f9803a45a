"""Any sequence of events, attempts, failures and updates: no pod is lost or in two queues, and none that could be scheduled is parked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.queue_world import GATE, Need, Outcome, World
from support.queueing import HandClock, RememberedMetrics

from koordsched.api.podinfo import PodInfo
from koordsched.queue.events import ASSIGNED_POD_DELETE, ActionType, AdmissionKey, EventResource, cluster_event
from koordsched.queue.profile import FEASIBLE, INFEASIBLE, ProbeOutcome
from koordsched.queue.queued_pod import QueuedPodInfo, QueuePlace
from koordsched.queue.scheduling_queue import SchedulingQueue

needs = st.builds(Need, room=st.integers(1, 3), level=st.integers(0, 2))
offers = st.builds(Need, room=st.integers(0, 6), level=st.integers(0, 2))
LIMIT = cluster_event(EventResource.CUSTOM, ActionType.UPDATE_OTHER, "teams.example.com")
CREW = cluster_event(EventResource.CUSTOM, ActionType.UPDATE_OTHER, "crews.example.com")

names = st.sampled_from(["", "a", "b"])

node_names = st.sampled_from(["n0", "n1", "n2"])
indexes = st.integers(0, 50)


class QueueMachine(RuleBasedStateMachine):
    """Drives a queue the way the scheduler does, with attempts that overlap with events."""

    names_rejectors = False

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.clock = HandClock()
        self.metrics = RememberedMetrics()
        self.queue = self.make_queue()
        self.pods: dict[str, PodInfo] = {}  # key -> the state that the API server has, of all pending pods
        self.flying: list[tuple[QueuedPodInfo, Outcome]] = []  # attempts that failed but did not come back yet
        self.versions = 0

    def make_queue(self) -> SchedulingQueue:
        return self.world.queue(self.clock, self.metrics, names_rejectors=self.names_rejectors)

    @initialize(offer=offers)
    def begin_with_a_node(self, offer: Need) -> None:
        self.change_node("n0", offer)

    # What users and controllers do.

    @rule(need=needs, priority=st.integers(0, 1), copies=st.integers(1, 4), has_shape=st.booleans(), gated=st.booleans())
    def add_pods(self, need: Need, priority: int, copies: int, has_shape: bool, gated: bool) -> None:
        for _ in range(copies):
            self.versions += 1
            pod = self.world.pod(f"p{self.versions}", need, priority=priority, version=self.versions, has_shape=has_shape)
            if gated:
                self.world.gated.add(pod.uid)
            self.pods[pod.key] = pod
            self.queue.add(pod)

    @precondition(lambda self: self.pods)
    @rule(index=indexes, less=needs)
    def let_a_pod_ask_for_less(self, index: int, less: Need) -> None:
        old = self._pick(index)
        had = self.world.needs[old.uid]
        need = Need(min(had.room, less.room), min(had.level, less.level))
        self.versions += 1
        name = old.key.partition("/")[2]
        new = self.world.pod(name, need, priority=old.priority, version=self.versions, has_shape=old.shape is not None)
        self.pods[new.key] = new
        self.queue.update(old, new)

    @precondition(lambda self: self.pods)
    @rule(index=indexes)
    def delete_a_pod(self, index: int) -> None:
        pod = self._pick(index)
        del self.pods[pod.key]
        self.queue.delete(pod)

    @rule(name=node_names, offer=offers)
    def change_node(self, name: str, offer: Need) -> None:
        for event, old, new in self.world.set_node(name, offer):
            self.queue.move_all(event, old, new)

    @rule(quota=st.integers(0, 9))
    def change_quota(self, quota: int) -> None:
        self.queue.move_all(*self.world.set_quota(quota))

    @precondition(lambda self: self.world.bound)
    @rule(index=indexes)
    def delete_a_bound_pod(self, index: int) -> None:
        self.world.unbind(index)
        self.queue.move_all(ASSIGNED_POD_DELETE, None, None)

    @precondition(lambda self: self.pods)
    @rule(index=indexes)
    def gate_a_pod_from_its_next_move_on(self, index: int) -> None:
        self.world.gated.add(self._pick(index).uid)

    @rule()
    def open_all_gates(self) -> None:
        self.world.gated.clear()
        self.queue.move_all(GATE, None, None)

    # What the scheduler does.

    @rule(comes_back_at_once=st.booleans(), with_error=st.booleans())
    def try_the_next_pod(self, comes_back_at_once: bool, with_error: bool) -> None:
        info = self.queue.pop()
        if info is not None:
            self._attempt(info, comes_back_at_once=comes_back_at_once, with_error=with_error)

    @precondition(lambda self: self.pods)
    @rule(index=indexes)
    def take_a_pod(self, index: int) -> None:
        info = self.queue.take(self._pick(index).key)
        if info is not None:
            self._attempt(info, comes_back_at_once=False, with_error=False)

    @precondition(lambda self: self.flying)
    @rule(index=indexes)
    def requeue_failed(self, index: int) -> None:
        info, outcome = self.flying.pop(index % len(self.flying))
        self._come_back(info, outcome)

    @precondition(lambda self: self.pods)
    @rule(index=indexes)
    def activate(self, index: int) -> None:
        self.queue.activate([self._pick(index)])

    @precondition(lambda self: self.pods)
    @rule(index=indexes, node=st.sampled_from(["", "n0", "n1"]))
    def nominate(self, index: int, node: str) -> None:
        self.queue.nominate(self._pick(index), node)

    @rule(seconds=st.sampled_from([0.4, 1.0, 2.7, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.time += seconds
        self.queue.flush_backoff(self.clock.now())
        due = self.queue.next_flush()
        assert due is None or due > self.clock.now()

    @rule()
    def flush_unschedulable(self) -> None:
        self.queue.flush_unschedulable(self.clock.now() + 250)

    # What must hold.

    @invariant()
    def the_queue_is_sound(self) -> None:
        self.queue.check_invariants()
        queued = [info.key for info in self.queue.pending()]
        assert len(queued) == len(set(queued))
        flying = {info.key for info, _ in self.flying}
        assert set(queued).isdisjoint(flying)
        assert set(queued) | (flying & self.pods.keys()) == self.pods.keys(), "a pod is lost"

    @invariant()
    def the_gauges_are_true(self) -> None:
        sizes = self.queue.sizes()
        assert sum(sizes) == len(self.queue.pending())
        expected = dict.fromkeys(self.world.hints, 0)
        for info in self.queue.pending():
            for plugin in info.rejectors.all:
                expected[plugin] += 1
        assert {plugin: self.metrics.unschedulable[plugin] for plugin in expected} == expected
        if not self.flying:
            assert set(self.queue.inflight_events().values()) <= {0}

    @rule()
    def no_pod_that_could_be_scheduled_is_parked(self) -> None:
        while self.flying:
            self._come_back(*self.flying.pop(0))
        self.open_all_gates()
        for _ in range(50):
            self.clock.time += 60
            self.queue.flush_backoff(self.clock.now())
            while (info := self.queue.pop()) is not None:
                self._attempt(info, comes_back_at_once=True, with_error=False)
        for info in self.queue.pending():
            assert info.place is QueuePlace.UNSCHEDULABLE
            assert not self.would_schedule(info.pod_info), [str(step) for step in self.queue.history(info.key)]

    def would_schedule(self, pod: PodInfo) -> bool:
        return self.world.would_schedule(self.world.needs[pod.uid])

    def attempt(self, pod: PodInfo) -> Outcome:
        return self.world.attempt(self.world.needs[pod.uid])

    def bind(self, pod: PodInfo, node: str) -> None:
        self.world.bind(self.world.needs[pod.uid], node)

    def teardown(self) -> None:
        self.no_pod_that_could_be_scheduled_is_parked()

    def _pick(self, index: int) -> PodInfo:
        return list(self.pods.values())[index % len(self.pods)]

    def _attempt(self, info: QueuedPodInfo, *, comes_back_at_once: bool, with_error: bool) -> None:
        outcome = self.attempt(info.pod_info)
        if with_error:
            outcome = Outcome("", frozenset(), in_filter=False)
        if outcome.node and info.key in self.pods:
            self.bind(info.pod_info, outcome.node)
            self.queue.nominate(info.pod_info, "")
            self.queue.done(info.uid)
            del self.pods[info.key]
        elif comes_back_at_once:
            self._come_back(info, outcome)
        else:
            self.flying.append((info, outcome))

    def _come_back(self, info: QueuedPodInfo, outcome: Outcome) -> None:
        stored = self.pods.get(info.key)
        if stored is None or stored.uid != info.uid:
            self.queue.done(info.uid)
            return
        info.pod_info = stored
        info.unschedulable_plugins = set(outcome.rejectors)
        info.rejected_in_filter = outcome.in_filter
        info.admission_plugin = outcome.admission_plugin
        self.queue.add_unschedulable_if_not_present(info)


class QueueMachineWithNamedRejectors(QueueMachine):
    names_rejectors = True


class TeamsAndCrews:
    """The state of both plugins (`queue.profile.QueueAdmission`)."""

    plugins = frozenset({"Crew", "Team"})

    def __init__(self) -> None:
        self.team: dict[str, str] = {}  # by uid, "" for none
        self.crew: dict[str, str] = {}
        self.needs: dict[str, Need] = {}
        self.limit = {"a": 2, "b": 2}
        self.used: Counter[str] = Counter()
        self.complete: set[str] = set()

    def key(self, plugin: str, pod: PodInfo) -> Hashable | None:
        return (self.crew if plugin == "Crew" else self.team).get(pod.uid, "") or None

    def signature(self, plugin: str, pod: PodInfo) -> Hashable:
        return ()

    def probe(self, plugin: str, pod: PodInfo) -> ProbeOutcome:
        return INFEASIBLE if self.refuses(plugin, pod) else FEASIBLE

    def refuses(self, plugin: str, pod: PodInfo) -> bool:
        key = self.key(plugin, pod)
        if not isinstance(key, str):
            return False
        if plugin == "Crew":
            return key not in self.complete
        return self.used[key] + self.needs[pod.uid].room > self.limit[key]

    def refusing(self, pod: PodInfo) -> str:
        return next((plugin for plugin in ("Crew", "Team") if self.refuses(plugin, pod)), "")


class AdmissionMachine(QueueMachine):
    """With two admission plugins more, neither of which registers an event: what helps is announced under the crew or the team.

    Crew, before Team: a pod of a crew passes while its crew is complete. Team: a pod passes if the room of its team's bound pods and its
    own is within the team's limit.
    """

    def __init__(self) -> None:
        self.admission = TeamsAndCrews()
        super().__init__()
        self.admission.needs = self.world.needs
        self.world.hints |= {"Crew": (), "Team": ()}
        self.queue = self.make_queue()
        self.world.quota = 100
        self.places: list[tuple[str, Need, str]] = []  # node, need and team of the bound pods that have one

    def make_queue(self) -> SchedulingQueue:
        return self.world.queue(self.clock, self.metrics, names_rejectors=self.names_rejectors, admission=self.admission)

    @initialize(offer=offers, pods=st.lists(st.tuples(names, names), min_size=2, max_size=5))
    def begin_with_pods(self, offer: Need, pods: list[tuple[str, str]]) -> None:
        """Let some pods be refused at once, as machines take few steps."""
        self.change_node("n1", Need(offer.room + 6, 2))
        for membership in pods:
            self.add_pods_of_a_team(room=2, priority=0, copies=1, has_shape=True, membership=membership)
        while (info := self.queue.pop()) is not None:
            self._attempt(info, comes_back_at_once=True, with_error=False)
        self.clock.time += 60

    @rule(
        room=st.integers(1, 3),
        priority=st.integers(0, 1),
        copies=st.integers(1, 4),
        has_shape=st.booleans(),
        membership=st.tuples(names, names),
    )
    def add_pods_of_a_team(self, room: int, priority: int, copies: int, has_shape: bool, membership: tuple[str, str]) -> None:
        team, crew = membership
        for _ in range(copies):
            self.versions += 1
            pod = self.world.pod(f"p{self.versions}", Need(room, 0), priority=priority, version=self.versions, has_shape=has_shape)
            self.admission.team[pod.uid], self.admission.crew[pod.uid] = team, crew
            self.pods[pod.key] = pod
            self.queue.add(pod)

    @precondition(lambda self: self.pods)
    @rule(index=indexes, team=names, crew=names)
    def move_a_pod_to_another_team(self, index: int, team: str, crew: str) -> None:
        """As a plugin does that reads the team from a pod's namespace: no pod changes, and the plugin reports to `Cache.signatures`."""
        uid = self._pick(index).uid
        self.admission.team[uid], self.admission.crew[uid] = team, crew
        self.queue.reshape(lambda info: info.pod_info.shape)

    @precondition(lambda self: self.pods)
    @rule(index=indexes, team=names)
    def change_the_team_of_a_pod(self, index: int, team: str) -> None:
        """As a plugin does that reads the team from a label."""
        old = self._pick(index)
        self.versions += 1
        need, name = self.world.needs[old.uid], old.key.partition("/")[2]
        new = self.world.pod(name, need, priority=old.priority, version=self.versions, has_shape=old.shape is not None)
        self.admission.team[old.uid] = team
        self.pods[new.key] = new
        self.queue.update(old, new)

    @rule(team=st.sampled_from(["a", "b"]), limit=st.integers(0, 6))
    def set_limit(self, team: str, limit: int) -> None:
        grew = limit > self.admission.limit[team]
        self.admission.limit[team] = limit
        if grew:
            self.queue.announce(LIMIT, AdmissionKey("Team", team))

    @rule(crew=st.sampled_from(["a", "b"]), complete=st.booleans())
    def complete_a_crew(self, crew: str, complete: bool) -> None:
        (self.admission.complete.add if complete else self.admission.complete.discard)(crew)
        if complete:
            self.queue.announce(CREW, AdmissionKey("Crew", crew))

    @precondition(lambda self: self.world.bound)
    @rule(index=indexes)
    def delete_a_bound_pod(self, index: int) -> None:
        self.world.bound.sort()
        node, need = self.world.bound[index % len(self.world.bound)]
        gone = next((place for place in self.places if place[:2] == (node, need)), None)
        super().delete_a_bound_pod(index)
        if gone is not None:
            self.places.remove(gone)
            self.admission.used[gone[2]] -= need.room
            self.queue.announce(ASSIGNED_POD_DELETE, AdmissionKey("Team", gone[2]))

    def would_schedule(self, pod: PodInfo) -> bool:
        return not self.admission.refusing(pod) and super().would_schedule(pod)

    def attempt(self, pod: PodInfo) -> Outcome:
        plugin = self.admission.refusing(pod)
        return Outcome("", frozenset({plugin}), in_filter=False, admission_plugin=plugin) if plugin else super().attempt(pod)

    def bind(self, pod: PodInfo, node: str) -> None:
        super().bind(pod, node)
        team = self.admission.team.get(pod.uid, "")
        if team:
            self.places.append((node, self.world.needs[pod.uid], team))
            self.admission.used[team] += self.world.needs[pod.uid].room


TestQueue = QueueMachine.TestCase
TestQueueWithNamedRejectors = QueueMachineWithNamedRejectors.TestCase
TestQueue.settings = TestQueueWithNamedRejectors.settings = settings(max_examples=60, stateful_step_count=40)
TestQueueWithAdmission = AdmissionMachine.TestCase
TestQueueWithAdmission.settings = settings(max_examples=80, stateful_step_count=50)
