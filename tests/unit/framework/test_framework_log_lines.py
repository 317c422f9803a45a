"""A plugin that fails while a waiting pod is judged: the pod is tried, since only an attempt can find out, and the log says why."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs
from support.builders import node, pod
from support.fakes import FakeFilter, FakePostFilter, VersionedFilter, profile_config, registry_of
from support.plugins import PluginBench

from koordsched.api.podinfo import PodInfo
from koordsched.framework.interface import Plugin
from koordsched.framework.profile import Profile
from koordsched.framework.status import unschedulable
from koordsched.queue.hints import Rejectors
from koordsched.queue.profile import FEASIBLE, INFEASIBLE, NEEDS_PREEMPTION


class BuggyFilter(VersionedFilter):
    """With `broken`, whether its answers have changed cannot be found out."""

    broken = False

    def version(self, pod: PodInfo) -> Any:
        if self.broken:
            raise KeyError("oops")
        return super().version(pod)


class BuggyPostFilter(FakePostFilter):
    def may_help(self, *_args: Any) -> bool:
        raise KeyError("oops")


def profile_of(**points: list[Plugin]) -> tuple[Profile, PodInfo]:
    """Return a profile on a cluster of one node, and a pod that has its shape."""
    bench = PluginBench()
    bench.cache.set_node(node("n1").cpu("4").build())
    plugins = {plugin.name: plugin for at in points.values() for plugin in at}
    made = Profile(profile_config(**points), registry_of(*plugins.values()), bench)
    info = pod("p").info()
    info.shape = made.shapes.key(info)
    return made, info


def bug(event: str) -> dict[str, object]:
    return {"event": event, "log_level": "error", "exc_info": True, "pod": "default/p"}


def test_a_filter_that_fails_while_a_pod_is_probed() -> None:
    judge = BuggyFilter()
    judge.refuse_all = unschedulable("full")
    made, info = profile_of(filter=[judge])
    judge.broken = True
    with capture_logs() as logs:
        assert made.probe(info) == (FEASIBLE, None)
        assert made.probe_without_preemption(info) == (FEASIBLE, None)
    assert logs == [bug("could not find out whether a waiting pod would fit")] * 2


def test_a_filter_that_fails_while_it_is_looked_whether_reasons_have_changed() -> None:
    judge = BuggyFilter()
    judge.refuse_all = unschedulable("full")
    made, info = profile_of(filter=[judge])
    assert made.shapes.why_infeasible(info) is not None
    assert made.unchanged_since_failure(info)
    judge.broken = True
    with capture_logs() as logs:
        assert not made.unchanged_since_failure(info)
    assert logs == [bug("could not find out whether a waiting pod's reasons changed")]


def test_a_post_filter_that_fails_may_help() -> None:
    judge = FakeFilter()
    judge.refuse_all = unschedulable("full")
    made, info = profile_of(filter=[judge], postFilter=[BuggyPostFilter("Q", (None, None))])
    with capture_logs() as logs:
        outcome, diagnosis = made.probe(info)
    assert outcome == NEEDS_PREEMPTION
    assert diagnosis is not None
    assert diagnosis.message == "0/1 nodes are available: 1 full."
    assert logs == [bug("could not find out whether PostFilter would help a waiting pod")]


def test_without_preemption_a_probe_answers_which_plugins_refuse_the_pod() -> None:
    judge = FakeFilter()
    made, info = profile_of(filter=[judge], postFilter=[BuggyPostFilter("Q", (None, None))])
    assert made.probe_without_preemption(info) == (FEASIBLE, None)
    judge.refuse_all = unschedulable("full")
    made, info = profile_of(filter=[judge], postFilter=[BuggyPostFilter("Q", (None, None))])
    assert made.probe_without_preemption(info) == (INFEASIBLE, Rejectors(frozenset({"F"}), frozenset()))
