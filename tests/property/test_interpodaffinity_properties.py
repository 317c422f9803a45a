"""InterPodAffinity, incremental and columnar, equals the plain model of the specification after any sequence of events, what-ifs too."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace
from support import affinity_model
from support.affinity import NamespacedWorld
from support.affinity_strategies import NAMES, NAMESPACES, labels, names, nodes, pods, spaces
from support.builders import PodBuilder
from support.world import Setup

from koordsched.api.core import Pod
from koordsched.api.podinfo import PodInfo
from koordsched.cache.cache import Cache
from koordsched.cache.nodes import NodeInfo
from koordsched.cache.plugin_state import Concerns

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: InterPodAffinity}, {name: DefaultBinder}]
  pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 3}}]
"""
HARD_WEIGHT = 3


class EqualsTheModel(RuleBasedStateMachine):
    """Events change cache and namespaces; the shapes of pods that were signed long ago follow, and are compared with the model."""

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.world = NamespacedWorld(Setup(CONFIG))
        self.running: dict[str, tuple[PodInfo, str]] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.count = 0
        for name in NAMESPACES:
            self.set_namespace(name, {})
        for name in NAMES[:3]:
            self.world.cache.set_node(data.draw(nodes(name)).build())
        self.world.cache.signatures.call(self.sign_again)
        self.waiting: list[PodInfo] = []
        for _ in range(3):
            self.wait(data)

    def sign_again(self, concerns: Concerns) -> None:
        """Do as the scheduler does when plugins sign pods differently."""
        for info in self.waiting:
            if concerns(info):
                info.shape = self.world.profile.shapes.key(info)

    @rule(data=st.data())
    def wait(self, data: st.DataObject) -> None:
        self.waiting = [*self.waiting[-3:], self.world.signed(self.fresh(data).info())]

    @rule(data=st.data(), name=names)
    def set_node(self, data: st.DataObject, name: str) -> None:
        self.world.cache.set_node(data.draw(nodes(name)).build())

    @rule(name=names)
    def remove_node(self, name: str) -> None:
        self.world.cache.remove_node(name)

    @rule(name=spaces, of=st.sampled_from([{}, {"env": "prod"}, {"env": "test"}]))
    def set_namespace(self, name: str, of: dict[str, str]) -> None:
        self.namespaces[name] = of
        self.world.set_namespace(name, of)

    @rule(data=st.data(), name=names, assumed=st.booleans())
    def run_pod(self, data: st.DataObject, name: str, assumed: bool) -> None:
        info = self.fresh(data).info()
        if assumed:
            self.world.cache.assume_pod(info, name)
        else:
            self.world.cache.set_pod(info, name)
        self.running[info.uid] = (info, name)

    @rule(data=st.data(), of=labels)
    def relabel(self, data: st.DataObject, of: dict[str, str]) -> None:
        if self.running:
            info, name = self.running[data.draw(st.sampled_from(sorted(self.running)))]
            new = info.with_pod(replace(info.pod, metadata=replace(info.pod.metadata, labels=of)))
            self.world.cache.set_pod(new, name)
            self.running[info.uid] = (new, name)

    @rule(data=st.data(), name=names)
    def end_or_move(self, data: st.DataObject, name: str) -> None:
        if self.running:
            uid = data.draw(st.sampled_from(sorted(self.running)))
            info, there = self.running.pop(uid)
            self.world.cache.remove_pod(uid)
            if there != name:
                self.world.cache.set_pod(info, name)
                self.running[uid] = (info, name)

    @rule(data=st.data(), name=names)
    def simulate(self, data: st.DataObject, name: str) -> None:
        """Let pods come to a node and its own go for a moment, and ask all nodes about every waiting pod."""
        place = self.world.cache.node(name)
        if place is None:
            return
        there = [info for info, where in self.running.values() if where == name]
        gone = data.draw(st.lists(st.sampled_from(there), unique_by=id)) if there else []
        come = [self.world.signed(self.fresh(data).info()) for _ in range(data.draw(st.integers(0, 2)))]
        shapes = self.world.profile.shapes
        asked = [(info, shapes.simulation(shapes.pre_filter(info))) for info in self.waiting]
        pods = [(info.pod, where) for info, where in self.running.values() if info not in gone] + [(info.pod, name) for info in come]
        with self.cache.simulate(place, add=come, remove=gone):
            cluster = self.cluster(pods)
            for info, simulation in asked:
                refusals = {name: simulation.filter_node(info, self.node(name)) for name in cluster.nodes}
                reasons = {name: refusal.message for name, refusal in refusals.items() if refusal is not None}
                assert reasons == affinity_model.filter(cluster, info.pod)

    @invariant()
    def answers_equal_the_models(self) -> None:
        if not hasattr(self, "waiting"):
            return
        cluster = self.cluster([(info.pod, name) for info, name in self.running.values()])
        for info in self.waiting:
            reasons, raw, totals = self.answers(info)
            assert reasons == affinity_model.filter(cluster, info.pod)
            feasible = [name for name in cluster.nodes if name not in reasons]
            expected = affinity_model.score(cluster, info.pod, HARD_WEIGHT)
            assert raw in ({}, {name: expected[name] for name in feasible})
            # Where PreScore skipped there are no raw scores and all totals are 0.
            assert totals == affinity_model.normalize({name: expected[name] for name in feasible})

    def answers(self, info: PodInfo) -> tuple[dict[str, str], dict[str, int], dict[str, int]]:
        """Return reasons, raw scores (empty when PreScore skipped) and totals."""
        shapes = self.world.profile.shapes
        shape = shapes.pre_filter(info)
        shapes.filter(shape, info)
        evaluation = shape.evaluation
        verdicts = {self.name_of(row): evaluation.verdict(row) for row in self.rows()}
        reasons = {name: shape.filters[f].explain(shape.state, info, code).message for name, (f, code) in verdicts.items() if f >= 0}
        if not evaluation.feasible_count:
            return reasons, {}, {}
        shapes.pre_score(shape, info)
        shapes.score(shape, info)
        scores = {self.name_of(row): evaluation.scores(row) for row in evaluation.feasible_rows().tolist()}
        raw = {name: values[0] for name, (values, _) in scores.items()} if evaluation.is_enabled(0) else {}
        return reasons, raw, {name: total for name, (_, total) in scores.items()}

    def cluster(self, pods: list[tuple[Pod, str]]) -> affinity_model.Cluster:
        nodes = {self.name_of(row): self.labels_of(row) for row in self.rows()}
        return affinity_model.Cluster(nodes, pods, self.namespaces)

    def rows(self) -> list[int]:
        rows: list[int] = self.cache.table.live_rows().tolist()
        return rows

    def name_of(self, row: int) -> str:
        return self.cache.nodes().info(row).name

    def node(self, name: str) -> NodeInfo:
        found = self.cache.node(name)
        assert found is not None
        return found

    def labels_of(self, row: int) -> dict[str, str]:
        found = self.cache.nodes().info(row).node
        assert found is not None
        return found.metadata.labels

    @property
    def cache(self) -> Cache:
        return self.world.cache

    def fresh(self, data: st.DataObject) -> PodBuilder:
        self.count += 1
        return data.draw(pods()).uid(f"uid-{self.count}")


EqualsTheModel.TestCase.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)
TestEqualsTheModel = EqualsTheModel.TestCase
