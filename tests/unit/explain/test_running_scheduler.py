"""What a running scheduler says of pods, beside its cycles: the same changes as `explain` says of files, and nothing stays of a trial."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from support.asked import asked, changes_of, dry_run
from support.explained import explained, node, pod, workload_of

from koordsched._core.counts import RowCounts
from koordsched.api.kinds import NODE, PRIORITY_CLASS, Kind
from koordsched.cache.pod_counts import PodCounts, PodQuery
from koordsched.cluster.memory import MemoryCluster
from koordsched.cluster.port import Forbidden, ListPage, Ref
from koordsched.config.flag_table import Flags
from koordsched.config.loading import default_config
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions, run_embedded
from koordsched.scheduler.suggestions.answers import AnswerOptions
from koordsched.server.http import HttpRequest
from koordsched.simulate.simulation import Simulation
from koordsched.slices import Slices

Json = dict[str, Any]

THREE_NODES = [
    node("n1"),
    node("n2", "16", "64Gi", taints=[{"key": "gpu", "value": "true", "effect": "NoSchedule"}]),
    node("n3", "8", "16Gi", unschedulable=True),
]
OLD = pod("old", {"cpu": "1500m", "memory": "1Gi"}, nodeName="n1")
WEB = pod("web", {"cpu": "3", "memory": "2Gi"})
TEAM = {"quota.scheduling.koordinator.sh/name": "team"}
GANG = {"pod-group.scheduling.sigs.k8s.io": "g"}


def quota(name: str = "team", cpu: str = "4") -> Json:
    spec = {"max": {"cpu": cpu}, "min": {"cpu": cpu}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": metadata, "spec": spec}


def gang(members: int) -> Json:
    metadata = {"name": "g", "namespace": "default"}
    return {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": members}}


def texts(found: Json) -> list[str]:
    return [each["text"] for each in found["changes"]]


@pytest.mark.parametrize(
    "objects",
    [
        [*THREE_NODES, OLD, WEB],
        [node("n1"), pod("web", {"cpu": "1"}, schedulingGates=[{"name": "example.com/wait"}])],
        [node("n1"), pod("web", {"cpu": "9"}, nodeSelector={"zone": "a"})],
        [node("n1"), gang(3), pod("web", {"cpu": "1"}, labels=GANG)],
        [node("n1", "40"), quota(), pod("old", {"cpu": "3"}, labels=TEAM, nodeName="n1"), pod("web", {"cpu": "3"}, labels=TEAM)],
    ],
    ids=["nodes", "gates", "pairs", "members", "quota"],
)
def test_the_changes_are_those_that_explain_states_of_the_files(objects: list[Json]) -> None:
    found, said = changes_of(objects), explained(objects)
    assert texts(found) == [each.text for each in said.changes]
    assert found["message"] == said.message


def test_the_members_of_a_gang_are_tried_together() -> None:
    """New nodes are left to `explain` of files: how many members the existing ones take beside them is not worked out here."""
    objects = [node("n1"), gang(3), *(pod(name, {"cpu": "2"}, labels=GANG) for name in ("web", "web1", "web2"))]
    stated = ["lower the minimum of gang g from 3 to 2 members", "request 1333m of cpu instead of 2"]
    assert texts(changes_of(objects)) == stated
    assert [each.text for each in explained(objects).changes] == [*stated, "add 1 node like n1"]


def test_a_pod_that_waits_for_room_that_a_reservation_keeps_could_own_it() -> None:
    held = {"cpu": "3", "memory": "4Gi"}
    reservation = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "kept", "uid": "kept"},
        "spec": {
            "owners": [{"labelSelector": {"matchLabels": {"app": "owner"}}}],
            "allocateOnce": False,
            "template": {"spec": {"containers": [{"name": "main", "image": "pause", "resources": {"requests": held}}]}},
        },
        "status": {"phase": "Available", "nodeName": "n1", "allocatable": held},
    }
    objects = [node("n1"), reservation, WEB]
    stated = "label the pod with app=owner: it then owns reservation kept"
    assert stated in texts(changes_of(objects))
    assert stated in [each.text for each in explained(objects).changes]


def test_a_pod_that_runs_is_said_to() -> None:
    found = changes_of([node("n1"), OLD], "old")
    assert (found["state"], found["node"]) == ("runs", "n1")


def test_a_dry_run_says_where_the_pod_would_go_and_what_each_plugin_gives_the_nodes() -> None:
    status, found = dry_run([node("n1"), node("n2", "8")], pod("new", {"cpu": "3"}))
    assert (status, found["state"]) == (200, "would be placed")
    assert found["node"] == found["scores"][0]["node"]
    assert {each["node"] for each in found["scores"]} == {"n1", "n2"}
    assert all(each["total"] == sum(each["plugins"].values()) for each in found["scores"])
    placed = explained([node("n1"), node("n2", "8"), pod("new", {"cpu": "3"})], "new")
    assert found["scores"] == [{"node": each.node, "total": each.total, "plugins": each.plugins} for each in placed.scores]


def test_a_dry_run_of_a_pod_that_fits_nowhere_says_what_would_help() -> None:
    status, found = dry_run([*THREE_NODES, OLD], pod("new", {"cpu": "3", "memory": "2Gi"}))
    assert (status, found["state"]) == (200, "pending")
    assert found["message"].startswith("0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were un")
    assert texts(found) == [each.text for each in explained([*THREE_NODES, OLD, WEB]).changes]


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (pod("new", {"cpu": "1"}, schedulingGates=[{"name": "g"}]), "waiting for scheduling gates: [g]"),
        (pod("new", {"cpu": "1"}, schedulerName="other"), "scheduler 'other' is responsible for it, which this one is not"),
        (pod("new", {"cpu": "5"}, labels=TEAM), "Insufficient quotas"),
    ],
)
def test_a_dry_run_says_what_keeps_the_pod_from_being_tried(new: Json, message: str) -> None:
    _, found = dry_run([node("n1", "40"), quota()], new)
    assert found["state"] == "pending"
    assert message in found["message"]
    assert found["changes"]


LSR = {"koordinator.sh/qosClass": "LSR"}
"""Pods that get CPUs of their own, and so whole ones only, where their priority is one of Koordinator's production band."""
A_HALF_TOO_MUCH = {"cpu": "1500m"}


def of_class(name: str, **spec: Any) -> Json:
    return pod("web", A_HALF_TOO_MUCH, labels=LSR, priorityClassName=name, **spec)


def priority_class(name: str, value: int, **more: Any) -> Json:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value, **more}


CLASSES = [priority_class("production", 9100), priority_class("others", 5100)]


@pytest.mark.parametrize(
    ("classes", "new", "state"),
    [
        (CLASSES, of_class("production"), "pending"),
        (CLASSES, of_class("others"), "would be placed"),
        (CLASSES, of_class("production", priority=5100), "would be placed"),  # what is given counts, as in manifests from a cluster
        ([priority_class("usual", 9100, globalDefault=True)], pod("web", A_HALF_TOO_MUCH, labels=LSR), "pending"),
        ([priority_class("usual", 5100, globalDefault=True)], pod("web", A_HALF_TOO_MUCH, labels=LSR), "would be placed"),
        ([], of_class("koord-batch"), "would be placed"),
        ([], of_class("nope"), "rejected"),
        ([], of_class("nope", priority=9100), "pending"),
    ],
)
def test_a_dry_run_has_the_priority_of_its_class_as_in_explain_of_files(classes: list[Json], new: Json, state: str) -> None:
    status, found = dry_run([node("n1"), *classes], new)
    said = explained([node("n1"), *classes, new])
    assert (status, found["state"], said.state) == (200, state, state)
    assert said.message.startswith(found.get("message", ""))  # that of the condition goes on about preemption
    assert ("integer" in said.message) == (state == "pending")


def test_a_dry_run_of_a_class_that_is_not_there_says_so() -> None:
    found = dry_run([node("n1")], of_class("nope"))[1]
    assert found == {
        "pod": "default/web",
        "state": "rejected",
        "message": 'pods "web" is forbidden: no PriorityClass with name nope was found',
    }


def test_a_dry_run_requests_what_it_is_limited_to() -> None:
    new = pod("new", {})
    new["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "5"}}
    assert dry_run([node("n1")], new)[1]["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    new["spec"]["containers"][0]["resources"] = {"limits": {"example.com/disk": "1"}}
    assert dry_run([node("n1")], new)[1]["message"].startswith("0/1 nodes are available: 1 Insufficient example.com/disk.")


@pytest.mark.parametrize("spec", [{"priorityClassName": 3}, {"priorityClassName": ["a"]}, {"priority": "high"}])
def test_a_priority_of_the_wrong_type_is_refused(spec: Json) -> None:
    status, found = dry_run([node("n1")], pod("new", {"cpu": "1"}, **spec))
    assert status == 400
    assert "the pod is invalid" in found["message"]


def test_a_dry_run_of_a_pod_that_is_on_a_node_is_that_of_its_like() -> None:
    assert dry_run([node("n1")], pod("new", {"cpu": "1"}, nodeName="n1"))[1]["node"] == "n1"


@pytest.fixture
def hidden_classes(monkeypatch: pytest.MonkeyPatch) -> str:
    """The scheduler may not list PriorityClasses, as with the rights of Koordinator's chart."""
    refusal, listed = 'priorityclasses is forbidden: User "s" cannot list resource "priorityclasses"', MemoryCluster.list

    async def listing(cluster: MemoryCluster, kind: Kind, **more: Any) -> ListPage:
        if kind is PRIORITY_CLASS:
            raise Forbidden(refusal)
        return await listed(cluster, kind, **more)

    monkeypatch.setattr(MemoryCluster, "list", listing)
    return refusal


def test_where_classes_may_not_be_listed_only_the_standard_ones_are_known(hidden_classes: str) -> None:
    objects = [node("n1"), *CLASSES]
    assert dry_run(objects, of_class("koord-prod"))[1]["state"] == "pending"
    assert dry_run(objects, of_class("koord-batch"))[1]["state"] == "would be placed"
    status, found = dry_run(objects, of_class("production"))
    assert status == 503
    assert found["message"] == (
        f"the priority of class production is not known here: {hidden_classes}; config/rbac.yaml has the right to list them. "
        "The pod may name its priority itself"
    )
    assert dry_run(objects, of_class("production", priority=9100))[1]["state"] == "pending"


def test_where_classes_may_not_be_listed_a_pod_without_one_has_priority_0_which_is_said(hidden_classes: str) -> None:
    found = dry_run([node("n1")], pod("new", {"cpu": "1"}))[1]
    assert found["state"] == "would be placed"
    assert found["notes"] == [f"taken for priority 0, as a class for all pods that name none would not be seen: {hidden_classes}"]
    assert "notes" not in dry_run([node("n1")], pod("new", {"cpu": "1"}, priority=7))[1]


CHANGES_OF = "/apis/v1/explain/default/{}/changes"


def post(body: bytes) -> HttpRequest:
    return HttpRequest.of("POST", "/apis/v1/explain", body=body)


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        (HttpRequest.of("GET", CHANGES_OF.format("nope")), 404, "cannot find pod default/nope"),
        (HttpRequest.of("GET", f"{CHANGES_OF.format('web')}?scores=x"), 400, "scores: expected a whole number up to 5000, not 'x'"),
        (post(b"{"), 400, "the body is no JSON"),
        (post(b"[]"), 400, "expected a Pod, as JSON"),
        (post(b'{"kind":"Node","metadata":{}}'), 400, "expected a Pod, as JSON"),
        (post(b'{"metadata":{"name":1}}'), 400, 'the pod is invalid: Pod "default" is invalid: metadata.name'),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused_with_words(request_: HttpRequest, status: int, words: str) -> None:
    ((found, body),) = asked([node("n1"), WEB], request_)
    assert found == status
    assert words in body["message"]


def test_the_paths_are_listed() -> None:
    ((_, listed),) = asked([node("n1")], HttpRequest.of("GET", "/apis/v1/__services__"))
    assert "/apis/v1/explain/:namespace/:name/changes" in listed["GET"]
    assert listed["POST"] == ["/apis/v1/explain"]


def with_scheduler(objects: list[Json], script: Any) -> Any:
    options = EmbeddedOptions(config=default_config(), flags=Flags(enable_network_topology_manager=True), lasting=True)

    async def play(embedded: EmbeddedCluster) -> Any:
        await Simulation(workload_of(objects), embedded, None).play(30.0)
        return await script(embedded)

    return run_embedded(options, play)


def test_nothing_stays_of_trials() -> None:
    """Neither in what quotas use and may use, nor in the cache, nor in the shapes of decisions."""
    objects = [*THREE_NODES, quota(), pod("old", {"cpu": "3"}, labels=TEAM, nodeName="n1"), pod("web", {"cpu": "3"}, labels=TEAM)]
    path = "/apis/v1/plugins/ElasticQuota/quotas/team"
    before, found, after = asked(
        objects,
        HttpRequest.of("GET", path),
        HttpRequest.of("GET", "/apis/v1/explain/default/web/changes"),
        HttpRequest.of("GET", f"{path}?again=1"),
    )
    assert found[1]["trials"] > 5
    for each in (before[1], after[1]):
        del each["runtimeVersion"]  # how often it was worked out
    assert before == after
    assert before[0] == 200

    async def script(embedded: EmbeddedCluster) -> None:
        scheduler = embedded.scheduler
        profile = scheduler.profiles["koord-scheduler"]
        state = json.dumps([len(profile.shapes), scheduler.cache.table.log_end, sorted(scheduler.cache.pods)])
        with Slices(scheduler.clock.perf) as work:
            assert await scheduler.answers.of_pod("default/web", AnswerOptions(), work) is not None
        assert json.dumps([len(profile.shapes), scheduler.cache.table.log_end, sorted(scheduler.cache.pods)]) == state

    with_scheduler(objects, script)


class Interrupted(Slices):
    """Work in whose pauses the cluster changes, once."""

    def __init__(self, embedded: EmbeddedCluster, after: int) -> None:
        super().__init__(lambda: 0.0)
        self._embedded = embedded
        self._left = after

    async def pause(self, ahead: float = 0.0) -> None:
        self._left -= 1
        if self._left == 0:
            await self._embedded.patch(Ref(NODE, "", "n2"), {"spec": {"unschedulable": True}})
            await self._embedded.sleep(1.0)


@pytest.mark.parametrize("after", [5, 8, 12])
def test_a_change_that_does_not_suffice_any_more_at_the_end_is_left_out(after: int) -> None:
    async def script(embedded: EmbeddedCluster) -> list[str]:
        with Interrupted(embedded, after) as work:
            found = await embedded.scheduler.answers.of_pod("default/web", AnswerOptions(), work)
        assert found is not None
        return [each.text for each in found.changes]

    found = with_scheduler([*THREE_NODES, OLD, WEB], script)
    assert "request 2500m of cpu instead of 3" in found
    assert "tolerate the taint gpu=true:NoSchedule" not in found


class QueriesBySlice(Slices):
    """Work that ends its slice at each pause; `begun` has how many queries began in each."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.begun = [0]

    async def pause(self, ahead: float = 0.0) -> None:
        self.begun.append(0)
        await asyncio.sleep(0)

    @contextmanager
    def counting(self) -> Iterator[None]:
        begin = PodCounts._begin

        def beginning(counts: PodCounts, query: PodQuery) -> RowCounts:
            self.begun[-1] += 1
            return begin(counts, query)

        with patch.object(PodCounts, "_begin", beginning):
            yield


SELECTED = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
NEAR = {"labelSelector": SELECTED, "topologyKey": "kubernetes.io/hostname"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SPREAD = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTED}
OTHER = {"labelSelector": {"matchLabels": {"app": "a1"}}, "topologyKey": "kubernetes.io/hostname"}


@pytest.mark.parametrize(
    "constraints",
    [
        {"topologySpreadConstraints": [SPREAD]},
        {"affinity": {"podAffinity": {REQUIRED: [NEAR]}}},
        {"affinity": {"podAntiAffinity": {REQUIRED: [NEAR, OTHER]}}},
        {"affinity": {"podAffinity": {REQUIRED: [NEAR, OTHER]}}},  # without one of them others are counted
    ],
    ids=["spread", "affinity", "anti-affinity", "two terms"],
)
def test_the_pods_of_each_new_constraint_are_counted_in_a_slice_of_its_own(constraints: Json) -> None:
    objects = [node(f"n{i}", "64", "64Gi", more={"pods": "110"}) for i in range(10)]
    objects += [pod(f"p{i}", {"cpu": "100m"}, labels={"app": f"a{i}"}, nodeName=f"n{i}") for i in range(10)]
    new = pod("new", {"cpu": "65"}, labels={"app": "new"}, **constraints)
    new["spec"] |= {"schedulerName": "koord-scheduler", "priority": 0}

    async def script(embedded: EmbeddedCluster) -> QueriesBySlice:
        work = QueriesBySlice()
        with work, work.counting():
            found = await embedded.scheduler.answers.of_dry_run(new, AnswerOptions(), work)
        assert found.changes
        return work

    work = with_scheduler(objects, script)
    assert max(work.begun) == 1


def test_when_time_runs_out_it_is_said() -> None:
    class Late(Slices):
        @property
        def worked(self) -> float:
            return 1.0

    async def script(embedded: EmbeddedCluster) -> Any:
        with Late(embedded.scheduler.clock.perf) as work:
            return await embedded.scheduler.answers.of_pod("default/web", AnswerOptions(), work)

    found = with_scheduler([*THREE_NODES, OLD, WEB], script)
    assert (found.incomplete, list(found.changes)) == (True, [])
