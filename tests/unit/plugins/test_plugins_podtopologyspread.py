"""PodTopologySpread: what pods share, defaults from Services and controllers, refusals and scores that the model test does not reach."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import PodBuilder, node, pod, requirement
from support.plugins import PluginBench

from koordsched.api.core import Service, ServiceSpec, TopologySpreadConstraint
from koordsched.api.groups import ReplicaSet, ReplicaSetSpec, ReplicationController, ReplicationControllerSpec
from koordsched.api.kinds import REPLICA_SET, REPLICATION_CONTROLLER, SERVICE, Kind
from koordsched.api.meta import LabelSelector, Object, ObjectMeta
from koordsched.cluster.port import ADDED, DELETED, MODIFIED, WatchEvent, WatchEventType
from koordsched.config.args import PodTopologySpreadArgs
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.status import SKIP, unresolvable
from koordsched.plugins.podtopologyspread.plugin import PodTopologySpread

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
BY_ZONE = PodTopologySpreadArgs(default_constraints=(TopologySpreadConstraint(1, ZONE, HARD),), defaulting_type="List")


def spread(key: str = ZONE, action: str = HARD, app: str = "x", **fields: Any) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(1, key, action, label_selector=LabelSelector(match_labels={"app": app}), **fields)


def zones(names: str = "a b") -> PluginBench:
    """Return a bench with a node in each zone, na in a and so on."""
    return PluginBench(*[node(f"n{zone}").zone(zone) for zone in names.split()], cluster=object())


def plugin_of(bench: PluginBench, args: PodTopologySpreadArgs | None = None) -> PodTopologySpread:
    return PodTopologySpread(args or PodTopologySpreadArgs(), bench)


def apply(bench: PluginBench, kind: Kind, obj: Object, event: WatchEventType = ADDED) -> None:
    bench.informer(kind)._objects.apply(WatchEvent(event, obj))


def service(selector: dict[str, str], name: str = "web", version: str = "1", namespace: str = "default") -> Service:
    return Service(metadata=ObjectMeta(name=name, namespace=namespace, uid=name, resource_version=version), spec=ServiceSpec(selector))


def replica_set(selector: LabelSelector | None, name: str = "web", version: str = "1") -> ReplicaSet:
    meta = ObjectMeta(name=name, namespace="default", uid=name, resource_version=version)
    return ReplicaSet(metadata=meta, spec=ReplicaSetSpec(selector=selector))


def owned(name: str = "p") -> PodBuilder:
    return pod(name).label("app", "x").owned_by("apps/v1", "ReplicaSet", "web")


# Signatures


def test_labels_that_no_constraint_looks_at_do_not_part_pods() -> None:
    plugin = plugin_of(zones())
    one, other = (pod("p").label("app", "x").label("index", index).spread(spread()) for index in "12")
    assert plugin.sign(one.info()) == plugin.sign(other.info())
    assert plugin.sign(one.info()) != plugin.sign(one.label("app", "y").info())  # it would not count itself
    assert plugin.sign(one.info()) != plugin.sign(pod("p", "other").label("app", "x").spread(spread()).info())


def test_where_a_pod_may_go_parts_pods_only_if_a_policy_looks_at_it() -> None:
    plugin = plugin_of(zones())
    ignoring = pod("p").spread(spread(node_affinity_policy="Ignore"))
    assert plugin.sign(ignoring.info()) == plugin.sign(ignoring.node_selector({"a": "b"}).info())
    assert plugin.sign(ignoring.info()) == plugin.sign(ignoring.tolerates("a").info())
    honoring = pod("p").spread(spread(node_taints_policy="Honor"))
    assert plugin.sign(honoring.info()) != plugin.sign(honoring.node_selector({"a": "b"}).info())
    assert plugin.sign(honoring.info()) != plugin.sign(honoring.tolerates("a").info())


def test_a_pod_without_constraints_owner_and_service_needs_no_signature() -> None:
    bench = zones()
    plugin = plugin_of(bench)
    plain = pod("p").label("app", "x").info()
    assert (plugin.sign(plain), plugin.version(plain), plugin.score_version(plain)) == (None, None, None)
    assert plugin.sign(owned().info()) is not None
    assert plugin.sign(pod("p").owned_by("batch/v1", "Job", "j").info()) is None
    apply(bench, SERVICE, service({"app": "x"}))
    assert plugin.sign(plain) is not None


def test_only_hard_constraints_have_versions_for_the_filter() -> None:
    plain, spreading = pod("p").info(), pod("p").label("app", "x").spread(spread()).info()
    plugin, by_zone = plugin_of(zones()), plugin_of(zones(), BY_ZONE)
    assert [each.has_version(plain) for each in (plugin, by_zone)] == [False, True]
    assert plugin.has_version(spreading)
    assert plugin.has_score_version(plain)  # the system's defaults are soft, and a Service may come


# Refusals


def test_a_selector_that_cannot_be_understood_is_named() -> None:
    plugin = plugin_of(zones())
    bad = LabelSelector(match_expressions=(requirement("app", "Sounds", "x"),))
    made = pod("p").spread(spread(), TopologySpreadConstraint(1, ZONE, SOFT, label_selector=bad))
    field = "spec.topologySpreadConstraints[1].labelSelector.matchExpressions[0].operator"
    text = f'{field}: "Sounds" is not one of In, NotIn, Exists, DoesNotExist, Gt, Lt'
    assert zones().pre_filter(plugin, made) == unresolvable(text)
    status = plugin.pre_score(CycleState(), made.info(), zones().cache.nodes())
    assert status is not None
    assert status.message == text


def test_without_hard_constraints_the_filter_is_skipped() -> None:
    bench = zones()
    plugin = plugin_of(bench)
    assert bench.pre_filter(plugin, pod("p")) is SKIP
    assert bench.pre_filter(plugin, pod("p").spread(spread(action=SOFT))) is SKIP
    assert bench.score(plugin, pod("p").spread(spread())) is None


def test_what_a_nominated_pod_would_change_is_seen_inside_a_simulation() -> None:
    bench = zones()
    plugin, made = plugin_of(bench), pod("p").label("app", "x").spread(spread())
    assert bench.passing(plugin, made) == ["na", "nb"]
    target = bench.cache.node("na")
    assert target is not None
    before = plugin.version(made.info())
    with bench.cache.simulate(target, add=[pod("nominated").label("app", "x").info()]):
        assert bench.passing(plugin, made) == ["nb"]
        assert plugin.version(made.info()) == before
    assert bench.passing(plugin, made) == ["na", "nb"]


def test_versions_follow_counted_pods_and_nodes_only() -> None:
    bench = zones()
    plugin, made = plugin_of(bench), pod("p").label("app", "x").spread(spread()).info()
    seen = [plugin.version(made)]
    bench.put(pod("other").label("app", "y"), "na")
    assert plugin.version(made) == seen[0]
    assert plugin.score_version(made) is None  # it has no soft constraints
    bench.put(pod("r").label("app", "x"), "na")
    seen.append(plugin.version(made))
    bench.set(node("nc").zone("c"))
    seen.append(plugin.version(made))
    bench.set(node("nc").zone("c").taint("a", "NoSchedule"))
    assert plugin.version(made) == seen[-1]  # no policy looks at taints
    bench.set(node("nc").zone("d"))
    seen.append(plugin.version(made))
    assert len(set(seen)) == 4


# Defaults


def test_pods_of_a_replica_set_are_spread_by_the_system() -> None:
    bench = zones()
    plugin = plugin_of(bench)
    assert bench.score(plugin, owned()) is None
    apply(bench, REPLICA_SET, replica_set(LabelSelector(match_labels={"app": "x"})))
    bench.put(pod("r1").label("app", "x"), "na")
    # Two hosts and two zones weigh ln 4 each; skews 3 and 5 add 2 and 4: na 2 * 1.386 + 6 = 8.77, nb 6.
    assert bench.score(plugin, owned()) == {"na": 9, "nb": 6}
    assert bench.pre_filter(plugin, owned()) is SKIP
    apply(bench, REPLICA_SET, replica_set(LabelSelector(match_labels={"app": "z"}), version="2"), MODIFIED)
    assert bench.score(plugin, owned()) == {"na": 6, "nb": 6}
    apply(bench, REPLICA_SET, replica_set(None), DELETED)
    assert bench.score(plugin, owned()) is None


def test_a_node_without_a_zone_takes_part_in_the_systems_spread() -> None:
    bench = PluginBench(node("na").zone("a"), node("plain"), cluster=object())
    plugin = plugin_of(bench)
    apply(bench, REPLICA_SET, replica_set(LabelSelector(match_labels={"app": "x"})))
    bench.put(pod("r1").label("app", "x"), "na")
    # Zones are "a" and none: ln 4. The plain node gets its host's share only.
    assert bench.score(plugin, owned()) == {"na": 9, "plain": 2}


def test_selectors_of_services_and_owner_are_merged() -> None:
    bench = zones()
    plugin = plugin_of(bench, BY_ZONE)
    apply(bench, SERVICE, service({"app": "x"}))
    apply(bench, SERVICE, service({"tier": "front"}, "tiered"))
    apply(bench, SERVICE, service({"app": "other"}, "unrelated"))
    apply(bench, SERVICE, service({}, "empty"))
    apply(bench, REPLICA_SET, replica_set(LabelSelector(match_expressions=(requirement("rev", "In", "1", "2"),))))
    made = owned().label("tier", "front").label("rev", "1")
    bench.put(pod("no-rev").label("app", "x").label("tier", "front"), "na")
    assert bench.passing(plugin, made) == ["na", "nb"]
    bench.put(pod("all").label("app", "x").label("tier", "front").label("rev", "2"), "na")
    assert bench.passing(plugin, made) == ["nb"]
    apply(bench, SERVICE, service({"app": "x"}), DELETED)
    apply(bench, SERVICE, service({"tier": "back"}, "tiered", "2"), MODIFIED)
    bench.put(pod("rev-only").label("rev", "2"), "nb")
    assert bench.passing(plugin, made) == ["na", "nb"]  # na 1, nb 1


def test_a_replication_controllers_map_counts_and_a_selector_that_is_not_understood_does_not() -> None:
    bench = zones()
    plugin = plugin_of(bench, BY_ZONE)
    meta = ObjectMeta(name="rc", namespace="default", uid="rc", resource_version="1")
    apply(bench, REPLICATION_CONTROLLER, ReplicationController(metadata=meta, spec=ReplicationControllerSpec(selector={"app": "x"})))
    bench.put(pod("r").label("app", "x"), "na")
    assert bench.passing(plugin, pod("p").label("app", "x").owned_by("v1", "ReplicationController", "rc")) == ["nb"]
    apply(bench, REPLICA_SET, replica_set(LabelSelector(match_expressions=(requirement("app", "Sounds", "x"),))))
    assert bench.pre_filter(plugin, owned()) is SKIP


def test_pods_of_which_a_later_service_selects_some_have_versions_of_their_own() -> None:
    bench = zones()
    plugin = plugin_of(bench)
    apply(bench, REPLICA_SET, replica_set(LabelSelector(match_labels={"app": "x"})))
    one, other = owned("p1").label("pod", "1").info(), owned("p2").label("pod", "2").info()
    assert plugin.sign(one) == plugin.sign(other)
    assert plugin.score_version(one) == plugin.score_version(other)
    apply(bench, SERVICE, service({"pod": "1"}))
    assert plugin.sign(one) == plugin.sign(other)
    assert plugin.score_version(one) != plugin.score_version(other)


@pytest.mark.parametrize("args", [PodTopologySpreadArgs(defaulting_type="List"), BY_ZONE])
def test_constraints_of_its_own_leave_no_room_for_defaults(args: PodTopologySpreadArgs) -> None:
    bench = zones()
    plugin = plugin_of(bench, args)
    apply(bench, SERVICE, service({"app": "x"}))
    bench.put(pod("r").label("app", "x"), "na")
    assert bench.pre_filter(plugin, pod("p").label("app", "x").spread(spread(HOSTNAME, SOFT))) is SKIP
    assert (bench.pre_filter(plugin, pod("p").label("app", "x")) is SKIP) is (not args.default_constraints)
