"""InterPodAffinity: framework.md §10.11. Its hints are in test_plugins_interpodaffinity_hints.py."""

from __future__ import annotations

import numpy as np
import pytest
from structlog.testing import capture_logs
from support.affinity import Far, NamespacedBench, NamespacedWorld, Near, selector, term, with_affinity
from support.builders import PodBuilder, node, pod, requirement

from koordsched.api.core import PodAffinityTerm
from koordsched.config.args import InterPodAffinityArgs
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.status import SKIP, unresolvable, unschedulable
from koordsched.plugins.interpodaffinity.plugin import InterPodAffinity

HOST = "kubernetes.io/hostname"
AFFINITY = ("node(s) didn't match pod affinity rules",)
ANTI_AFFINITY = ("node(s) didn't match pod anti-affinity rules",)
EXISTING = ("node(s) didn't satisfy existing pods anti-affinity rules",)

DB = pod("db").label("app", "db")
TO_DB = term("zone", {"app": "db"})
APART = with_affinity(pod("x").label("app", "x"), far=Far(required=[term(HOST, {"app": "x"})]))


def zones() -> NamespacedBench:
    """Return nodes a1 and a2 in zone a, b in zone b, and one without a zone."""
    return NamespacedBench(node("a1").label("zone", "a"), node("a2").label("zone", "a"), node("b").label("zone", "b"), node("bare"))


def plugin_on(bench: NamespacedBench, weight: int = 1, *, ignoring: bool = False) -> InterPodAffinity:
    return InterPodAffinity(InterPodAffinityArgs(hard_pod_affinity_weight=weight, ignore_preferred_terms_of_existing_pods=ignoring), bench)


def near(*terms: PodAffinityTerm, builder: PodBuilder | None = None) -> PodBuilder:
    return with_affinity(builder or pod("p"), Near(required=terms))


class TestFilter:
    def test_a_pod_goes_where_the_pod_is_that_it_wants(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        bench.put(DB, "a1")
        assert bench.reasons(plugin, near(TO_DB)) == {"a1": (), "a2": (), "b": AFFINITY, "bare": AFFINITY}

    def test_a_missing_wanted_pod_cannot_be_resolved_by_preemption_but_a_present_unwanted_one_can(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        bench.put(DB, "a1")
        refused = bench.filter(plugin, near(TO_DB))["b"]
        assert refused == unresolvable(*AFFINITY)
        far = with_affinity(pod("p"), far=Far(required=[TO_DB]))
        assert bench.filter(plugin, far) == {
            "a1": unschedulable(*ANTI_AFFINITY),
            "a2": unschedulable(*ANTI_AFFINITY),
            "b": None,
            "bare": None,
        }

    def test_the_first_of_a_group_may_go_wherever_the_key_is(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        member = near(TO_DB, builder=DB)
        assert bench.passing(plugin, member) == ["a1", "a2", "b"]
        bench.put(DB.uid("other"), "b")
        assert bench.passing(plugin, member) == ["b"]

    def test_a_wanted_pod_outside_all_domains_leaves_the_next_one_the_first_of_its_group(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        bench.put(DB.uid("other"), "bare")
        assert bench.passing(plugin, near(TO_DB, builder=DB)) == ["a1", "a2", "b"]

    def test_one_pod_has_to_match_all_terms(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        both = near(TO_DB, term(HOST, {"tier": "1"}))
        bench.put(DB, "a1")
        bench.put(pod("other").label("tier", "1"), "a1")
        assert bench.passing(plugin, both) == []
        bench.put(DB.label("tier", "1").uid("both"), "a2")
        assert bench.passing(plugin, both) == ["a2"]

    def test_an_existing_pods_anti_affinity_holds_for_pods_without_terms(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        bench.put(with_affinity(pod("hermit"), far=Far(required=[TO_DB])), "a1")
        assert bench.reasons(plugin, DB) == {"a1": EXISTING, "a2": EXISTING, "b": (), "bare": ()}
        assert bench.pre_filter(plugin, pod("web").label("app", "web")) is SKIP

    def test_the_pods_own_terms_are_the_first_reason(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        bench.put(APART, "a1")
        assert bench.reasons(plugin, APART.uid("second"))["a1"] == ANTI_AFFINITY

    def test_a_pod_that_has_no_terms_and_matches_none_is_skipped(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        assert bench.pre_filter(plugin, pod("plain")) is SKIP
        assert plugin.sign(pod("plain").label("any", "thing").info()) is None

    def test_a_term_that_no_pod_has_any_more_refuses_no_pod(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        hermit = with_affinity(pod("hermit"), far=Far(required=[TO_DB]))
        bench.put(hermit, "a1")
        bench.cache.remove_pod(hermit.build().metadata.uid)
        assert bench.pre_filter(plugin, DB) is SKIP

    def test_a_label_with_an_empty_value_is_a_domain(self) -> None:
        bench = NamespacedBench(node("e1").label("zone", ""), node("e2").label("zone", ""), node("bare"))
        plugin = plugin_on(bench)
        bench.put(DB, "e1")
        assert bench.passing(plugin, near(TO_DB)) == ["e1", "e2"]

    def test_pods_of_a_node_that_went_away_count_nowhere(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        bench.put(APART, "b")
        bench.put(DB, "b")
        bench.cache.remove_node("b")
        assert bench.passing(plugin, near(TO_DB)) == []
        assert bench.passing(plugin, with_affinity(pod("p"), far=Far(required=[TO_DB]))) == ["a1", "a2", "bare"]


class TestNamespaces:
    def test_a_term_means_its_own_namespace_unless_it_says_otherwise(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        bench.put(pod("db", "other").label("app", "db"), "a1")
        assert bench.passing(plugin, near(TO_DB)) == []
        assert bench.passing(plugin, near(term("zone", {"app": "db"}, namespaces=("other",)))) == ["a1", "a2"]
        assert bench.passing(plugin, near(term("zone", {"app": "db"}, namespace_selector=selector()))) == ["a1", "a2"]

    @pytest.mark.parametrize(
        ("meant", "free"),
        [
            (selector(None, requirement("env", "NotIn", "prod")), ["a1", "a2", "bare"]),
            (selector(None, requirement("env", "DoesNotExist")), ["a1", "a2", "b", "bare"]),
            (selector({"env": "prod"}), ["b", "bare"]),
        ],
    )
    def test_a_selector_means_just_what_it_selects(self, meant: object, free: list[str]) -> None:
        """The reference lets NotIn and DoesNotExist mean every namespace."""
        bench = zones()
        plugin = plugin_on(bench)
        bench.set_namespace("production", {"env": "prod"})
        bench.set_namespace("test", {"env": "test"})
        bench.put(pod("db", "production").label("app", "db"), "a1")
        bench.put(pod("db", "test").label("app", "db"), "b")
        avoiding = with_affinity(pod("p"), far=Far(required=[term("zone", {"app": "db"}, namespace_selector=meant)]))
        assert bench.passing(plugin, avoiding) == free

    def test_terms_follow_the_namespaces_labels(self) -> None:
        world = NamespacedWorld()
        world.cache.set_node(node("n").build())
        world.set_namespace("blue", {"team": "blue"})
        hermit = with_affinity(pod("h"), far=Far(required=[term(HOST, {}, namespace_selector=selector({"team": "blue"}))]))
        world.cache.set_pod(hermit.on("n").info(), "n")
        guest = world.signed(pod("p", "blue").info())
        assert isinstance(world.find(guest), Diagnosis)
        world.set_namespace("blue", {"team": "grey"})
        assert world.find(guest) == "n"
        world.set_namespace("blue", {"team": "blue"})
        assert isinstance(world.find(guest), Diagnosis)
        world.set_namespace("blue", None)
        assert world.find(guest) == "n"


class TestLabelKeys:
    def test_match_label_keys_mean_pods_with_the_pods_own_value(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        bench.put(DB.label("hash", "1"), "a1")
        of_a_kind = [term(HOST, {"app": "db"}, match_label_keys=("hash", "absent"))]
        assert bench.passing(plugin, with_affinity(DB.label("hash", "2").uid("2"), far=Far(required=of_a_kind))) == [
            "a1",
            "a2",
            "b",
            "bare",
        ]
        assert bench.passing(plugin, with_affinity(DB.label("hash", "1").uid("1"), far=Far(required=of_a_kind))) == ["a2", "b", "bare"]

    def test_mismatch_label_keys_leave_out_pods_with_the_pods_own_value(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        bench.put(pod("red").label("tenant", "red"), "a1")
        others = [term(HOST, selector(None, requirement("tenant", "Exists")), mismatch_label_keys=("tenant",))]
        assert "a1" in bench.passing(plugin, with_affinity(pod("p").label("tenant", "red"), far=Far(required=others)))
        assert "a1" not in bench.passing(plugin, with_affinity(pod("p").label("tenant", "blue"), far=Far(required=others)))

    def test_what_an_api_server_has_merged_already_is_not_merged_again(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        bench.put(DB.label("hash", "1"), "a1")
        merged = term(HOST, selector({"app": "db"}, requirement("hash", "In", "1")), match_label_keys=("hash",))
        relabelled = with_affinity(DB.label("hash", "2").uid("2"), far=Far(required=[merged]))
        assert bench.passing(plugin, relabelled) == ["a2", "b", "bare"]


class TestUnreadableTerms:
    BAD = selector(None, requirement("app", "Is", "db"))

    def test_an_incoming_pod_is_refused_with_the_place_of_the_mistake(self) -> None:
        bench = zones()
        answer = bench.pre_filter(plugin_on(bench), with_affinity(pod("p"), Near(required=[TO_DB, term("zone", self.BAD)])))
        assert answer == unresolvable(
            "parsing pod: requiredAffinityTerms: [1].labelSelector.matchExpressions[0].operator: "
            '"Is" is not one of In, NotIn, Exists, DoesNotExist, Gt, Lt'
        )

    def test_every_list_is_checked(self) -> None:
        bench, plugin = zones(), plugin_on(zones())
        bad = term("zone", self.BAD)
        broken = with_affinity(pod("p"), Near(preferred=[(1, bad)]), Far([term("zone", {}, namespace_selector=self.BAD)], [(1, bad)]))
        answer = bench.pre_filter(plugin, broken)
        assert answer is not None
        for name in ("preferredAffinityTerms: [0].labelSelector.", "requiredAntiAffinityTerms: [0].namespaceSelector."):
            assert name in str(answer)
        assert "preferredAntiAffinityTerms: [0].labelSelector." in str(answer)

    def test_of_an_existing_pod_only_the_unreadable_term_is_left_out_and_that_is_said_once(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        hermit = with_affinity(pod("hermit"), far=Far(required=[term("zone", self.BAD), TO_DB]))
        with capture_logs() as logs:
            bench.put(hermit, "a1")
            bench.put(hermit.uid("again"), "a2")
        assert [(line["pod"], line["log_level"]) for line in logs] == [("default/hermit", "warning")]
        assert "[0].labelSelector" in logs[0]["problem"]
        assert bench.passing(plugin, DB) == ["b", "bare"]


class TestScore:
    def test_preferred_terms_add_their_weight_for_each_pod_in_the_domain(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        for name, place in (("1", "a1"), ("2", "a2"), ("3", "b")):
            bench.put(DB.uid(name), place)
        likes = with_affinity(pod("p"), Near(preferred=[(10, TO_DB), (1, term(HOST, {"app": "db"}))]))
        assert bench.score(plugin, likes) == {"a1": 21, "a2": 21, "b": 11, "bare": 0}
        dislikes = with_affinity(pod("p"), far=Far(preferred=[(10, TO_DB)]))
        assert bench.score(plugin, dislikes) == {"a1": -20, "a2": -20, "b": -10, "bare": 0}

    def test_existing_pods_wishes_and_needs_count_for_a_pod_that_wants_nothing(self) -> None:
        bench = zones()
        plugin = plugin_on(bench, weight=7)
        bench.put(with_affinity(pod("fan"), Near(preferred=[(30, TO_DB)])), "a1")
        bench.put(with_affinity(pod("foe"), far=Far(preferred=[(4, TO_DB)])), "b")
        bench.put(with_affinity(pod("needs"), Near(required=[TO_DB])), "a2")
        assert bench.score(plugin, DB) == {"a1": 37, "a2": 37, "b": -4, "bare": 0}
        assert bench.score(plugin, pod("web")) is None

    def test_weight_0_turns_needs_off(self) -> None:
        bench = zones()
        plugin = plugin_on(bench, weight=0)
        bench.put(with_affinity(pod("needs"), Near(required=[TO_DB])), "a2")
        assert bench.score(plugin, DB) is None

    def test_existing_pods_can_be_ignored_for_pods_without_preferences_of_their_own(self) -> None:
        bench = zones()
        plugin = plugin_on(bench, ignoring=True)
        bench.put(with_affinity(pod("fan"), Near(preferred=[(30, TO_DB)])), "a1")
        bench.put(DB.uid("there"), "b")
        assert bench.score(plugin, DB) is None
        likes = with_affinity(DB, Near(preferred=[(1, TO_DB)]))
        assert bench.score(plugin, likes) == {"a1": 30, "a2": 30, "b": 1, "bare": 0}

    def test_scores_are_spread_over_0_to_100_with_the_references_floats(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        nodes = bench.cache.nodes()
        raw = np.array([-50, -21, 50, 0], np.int64)  # 29/100 is 28.999...: truncated to 28
        assert plugin.normalize_scores(CycleState(), pod().info(), nodes, raw).tolist() == [0, 28, 100, 50]
        assert plugin.normalize_scores(CycleState(), pod().info(), nodes, np.full(4, 9, np.int64)).tolist() == [0, 0, 0, 0]


class TestSignaturesAndVersions:
    def test_labels_are_signed_only_if_some_term_reads_them(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        labelled = DB.label("pod-index", "7")
        bench.put(with_affinity(pod("hermit"), far=Far(required=[TO_DB])), "a1")
        assert plugin.sign(labelled.info()) == (None, "default", (("app", "db"),))
        assert plugin.sign(pod("p").label("pod-index", "7").info()) is None

    def test_pods_that_were_signed_before_are_signed_again_when_a_label_begins_to_matter(self) -> None:
        bench = zones()
        plugin_on(bench)
        concerned: list[list[str]] = []
        waiting = [DB.info(), pod("web").label("tier", "1").info()]
        bench.cache.signatures.call(lambda concerns: concerned.append([info.key for info in waiting if concerns(info)]))
        bench.put(with_affinity(pod("hermit"), far=Far(required=[TO_DB])), "a1")
        bench.put(with_affinity(pod("fan"), Near(preferred=[(1, TO_DB)])), "a1")
        bench.put(with_affinity(pod("loner"), far=Far(required=[term("zone", selector())])), "a1")
        assert concerned == [["default/db"], ["default/db", "default/web"]]

    def test_pods_of_one_affinity_share_a_signature_though_other_labels_differ(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        assert plugin.sign(APART.label("index", "1").info()) == plugin.sign(APART.label("index", "2").info())

    def test_pods_that_have_no_terms_and_match_none_have_no_versions(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        assert [plugin.has_version(each.info()) for each in (DB, APART)] == [False, True]
        bench.put(with_affinity(pod("hermit"), far=Far(required=[TO_DB])), "a1")
        assert [plugin.has_version(each.info()) for each in (DB, APART, pod("plain"))] == [True, True, False]

    def test_what_happens_on_one_node_needs_no_new_version_where_each_domain_is_one_node(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        waiting = APART.uid("waiting").info()
        before = plugin.version(waiting)
        bench.put(APART, "a1")
        assert plugin.version(waiting) == before

    def test_a_domain_that_begins_to_refuse_is_a_new_version_and_one_more_pod_in_it_is_not(self) -> None:
        bench = zones()
        plugin = plugin_on(bench)
        waiting = with_affinity(pod("p"), far=Far(required=[TO_DB])).info()
        versions = [plugin.version(waiting)]
        for name, place in (("1", "a1"), ("2", "a2"), ("3", "b")):
            bench.put(DB.uid(name), place)
            versions.append(plugin.version(waiting))
        assert versions[0] != versions[1] == versions[2] != versions[3]

    def test_a_label_that_an_assumed_pod_got_before_it_was_seen_bound_counts(self) -> None:
        world = NamespacedWorld()
        for name in ("n1", "n2"):
            world.cache.set_node(node(name).build())
        apart = world.signed(APART.uid("waiting").info())
        assert world.find(apart) in {"n1", "n2"}
        web = pod("web")
        for name in ("n1", "n2"):
            world.cache.assume_pod(web.uid(name).info(), name)
        assert world.find(apart) in {"n1", "n2"}
        for name in ("n1", "n2"):
            info = world.cache.pods[name].info
            world.cache.set_pod(info.with_pod(web.uid(name).label("app", "x").on(name).build()), name)
        assert isinstance(world.find(apart), Diagnosis)


class TestNominatedPods:
    def test_a_nominated_pod_that_wants_no_neighbours_keeps_a_pod_without_terms_away(self) -> None:
        """framework.md §5.1, [FIX]: the reference skips the plugin for such a pod and does not see it."""
        world = NamespacedWorld()
        world.cache.set_node(node("n1").build())
        hermit = with_affinity(pod("hermit").priority(10), far=Far(required=[term(HOST, {"app": "db"})])).info()
        plain = world.signed(DB.info())
        assert world.find(plain) == "n1"
        world.nominator.set(hermit, "n1")
        found = world.find(plain)
        assert isinstance(found, Diagnosis)
        assert found.message == "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules."
        world.nominator.remove(hermit.uid)
        assert world.find(plain) == "n1"
