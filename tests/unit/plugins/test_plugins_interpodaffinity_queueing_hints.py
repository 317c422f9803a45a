"""Which events InterPodAffinity takes for helpful: framework.md §3.5, with its [FIX] points."""

from __future__ import annotations

import pytest
from support.affinity import Far, NamespacedBench, Near, selector, term, with_affinity
from support.builders import NodeBuilder, PodBuilder, node, pod
from support.plugins import hint, registered

from koordsched.api.core import Namespace
from koordsched.api.meta import ObjectMeta
from koordsched.config.args import InterPodAffinityArgs
from koordsched.plugins.interpodaffinity.plugin import InterPodAffinity
from koordsched.queue.events import ActionType, EventResource, QueueingHint

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
POD, NODE, NAMESPACE = range(3)  # registrations

DB = pod("db").label("app", "db")
WEB = pod("web").label("app", "web")
TO_DB, TO_WEB = term("zone", {"app": "db"}), term("rack", {"app": "web"})
WANTS = with_affinity(pod("wants"), Near(required=[TO_DB]))
AVOIDS = with_affinity(pod("avoids"), far=Far(required=[TO_DB, TO_WEB]))
LIKES = with_affinity(pod("likes"), Near(preferred=[(1, TO_DB)]))


def plugin(bench: NamespacedBench | None = None) -> InterPodAffinity:
    return InterPodAffinity(InterPodAffinityArgs(), bench or NamespacedBench())


def pod_event(waiting: PodBuilder, old: PodBuilder | None, new: PodBuilder | None, on: InterPodAffinity | None = None) -> QueueingHint:
    return hint(on or plugin(), POD, waiting, old.build() if old else None, new.build() if new else None)


def test_what_is_registered() -> None:
    pods = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL
    nodes = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL
    namespaces = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_OTHER
    assert [(each.event.resource, each.event.action) for each in registered(plugin())] == [
        (EventResource.POD, pods),
        (EventResource.NODE, nodes),
        (EventResource.NAMESPACE, namespaces),
    ]


class TestPods:
    @pytest.mark.parametrize(
        ("came", "answer"),
        [(DB.on("n"), QUEUE), (WEB.on("n"), SKIP), (DB, SKIP), (pod("db", "other").label("app", "db").on("n"), SKIP)],
    )
    def test_a_bound_pod_that_is_wanted_helps(self, came: PodBuilder, answer: QueueingHint) -> None:
        assert pod_event(WANTS, None, came) is answer

    def test_it_has_to_match_all_terms(self) -> None:
        both = with_affinity(pod("p"), Near(required=[TO_DB, term("zone", {"tier": "1"})]))
        assert pod_event(both, None, DB.on("n")) is SKIP
        assert pod_event(both, None, DB.label("tier", "1").on("n")) is QUEUE

    def test_a_pod_that_becomes_wanted_helps(self) -> None:
        assert pod_event(WANTS, WEB.on("n"), WEB.label("app", "db").on("n")) is QUEUE
        assert pod_event(WANTS, DB.on("n"), DB.label("tier", "1").on("n")) is SKIP

    def test_one_avoided_pod_that_goes_is_enough(self) -> None:
        """The reference wants it to match all anti-affinity terms (kubernetes #134393)."""
        assert pod_event(AVOIDS, DB.on("n"), None) is QUEUE
        assert pod_event(AVOIDS, DB.nominated("n"), None) is QUEUE
        assert pod_event(AVOIDS, DB, None) is SKIP
        assert pod_event(AVOIDS, pod("other").on("n"), None) is SKIP
        assert pod_event(WANTS, DB.on("n"), None) is SKIP

    def test_a_pod_that_ceases_to_be_avoided_helps(self) -> None:
        assert pod_event(AVOIDS, DB.on("n"), DB.label("app", "cache").on("n")) is QUEUE
        assert pod_event(AVOIDS, DB.on("n"), WEB.on("n")) is QUEUE
        assert pod_event(AVOIDS, pod("other").on("n"), DB.on("n")) is SKIP

    @pytest.mark.parametrize("gone", [AVOIDS.on("n"), AVOIDS.nominated("n")])
    def test_a_pod_that_kept_this_one_out_and_goes_helps(self, gone: PodBuilder) -> None:
        """The reference forgets the terms of the pod that goes (kubernetes #139135, #141354)."""
        bench = NamespacedBench(node("n").label("zone", "a"))
        known = plugin(bench)
        bench.put(AVOIDS, "n")
        assert pod_event(DB, gone, None, known) is QUEUE
        assert pod_event(pod("other").label("app", "other"), gone, None, known) is SKIP

    def test_a_new_label_of_a_pod_with_match_label_keys_may_free_this_one(self) -> None:
        bench = NamespacedBench(node("n").label("zone", "a"))
        known = plugin(bench)
        hermit = with_affinity(pod("h").label("hash", "1"), far=Far(required=[term("zone", {"app": "db"}, match_label_keys=("hash",))])).on(
            "n"
        )
        bench.put(hermit, "n")
        waiting = DB.label("hash", "1")
        assert pod_event(waiting, hermit, hermit.label("hash", "2"), known) is QUEUE
        assert pod_event(waiting, hermit, hermit.label("other", "2"), known) is SKIP

    def test_the_last_of_a_group_that_goes_makes_this_pod_the_first(self) -> None:
        bench = NamespacedBench(node("n").label("zone", "a"), node("bare"))
        known = plugin(bench)
        member = with_affinity(DB.uid("member"), Near(required=[TO_DB]))
        bench.put(DB.uid("left"), "n")
        assert pod_event(member, DB.on("n"), None, known) is SKIP
        bench.cache.remove_pod("left")
        bench.put(DB.uid("nowhere"), "bare")
        assert pod_event(member, DB.on("n"), None, known) is QUEUE
        assert pod_event(WANTS, DB.on("n"), None, known) is SKIP

    def test_its_own_new_labels_help(self) -> None:
        bench = NamespacedBench(node("n").label("zone", "a"))
        known = plugin(bench)
        bench.put(AVOIDS, "n")
        assert pod_event(DB, DB, DB.label("app", "db2"), known) is QUEUE

    def test_pods_that_want_nothing_are_not_helped(self) -> None:
        assert pod_event(pod("plain"), DB.on("n"), None) is SKIP
        assert pod_event(LIKES, None, DB.on("n")) is SKIP


class TestNodes:
    ZONE, BARE = node("n").label("zone", "a"), node("n")

    @pytest.mark.parametrize(
        ("waiting", "old", "new", "answer"),
        [
            (WANTS, None, ZONE, QUEUE),
            (WANTS, None, BARE, SKIP),
            (AVOIDS, None, BARE, QUEUE),
            (LIKES, None, ZONE, SKIP),
            (pod("plain"), None, ZONE, SKIP),
            (WANTS, BARE, ZONE, QUEUE),
            (WANTS, ZONE, ZONE.label("zone", "b"), QUEUE),
            (WANTS, ZONE, ZONE.label("disk", "ssd"), SKIP),
            (WANTS, ZONE, BARE, SKIP),
            (AVOIDS, ZONE, BARE, QUEUE),
            (AVOIDS, ZONE, ZONE.label("zone", "b"), QUEUE),
            (AVOIDS, BARE, ZONE, SKIP),
            (AVOIDS, ZONE, None, QUEUE),
            (WANTS, ZONE, None, QUEUE),
            (WANTS, BARE, None, SKIP),
        ],
    )
    def test_a_node_helps_where_its_domain_matters(
        self, waiting: PodBuilder, old: NodeBuilder | None, new: NodeBuilder | None, answer: QueueingHint
    ) -> None:
        before, after = (each.build() if each is not None else None for each in (old, new))
        assert hint(plugin(), NODE, waiting, before, after) is answer

    def test_a_pod_that_others_keep_out_is_helped_too(self) -> None:
        bench = NamespacedBench(node("n").label("zone", "a"))
        known = plugin(bench)
        bench.put(AVOIDS, "n")
        assert hint(known, NODE, DB, None, node("new").build()) is QUEUE
        assert hint(known, NODE, DB, self.ZONE.build(), self.BARE.build()) is QUEUE
        assert hint(known, NODE, DB, self.ZONE.build(), self.ZONE.label("disk", "ssd").build()) is SKIP


class TestNamespaces:
    def test_other_labels_of_a_namespace_help_where_a_selector_may_select_it(self) -> None:
        bench = NamespacedBench(node("n"))
        known = plugin(bench)
        blue, grey = (Namespace(metadata=ObjectMeta(name="ns", labels={"team": team})) for team in ("blue", "grey"))
        selects = with_affinity(pod("p"), far=Far(required=[term("zone", {}, namespace_selector=selector({"team": "blue"}))]))
        assert hint(known, NAMESPACE, selects, blue, grey) is QUEUE
        assert hint(known, NAMESPACE, selects, blue, blue) is SKIP
        assert hint(known, NAMESPACE, WANTS, blue, grey) is SKIP
        bench.put(selects, "n")
        assert hint(known, NAMESPACE, pod("guest", "ns"), blue, grey) is QUEUE
        assert hint(known, NAMESPACE, pod("guest", "elsewhere"), blue, grey) is SKIP
