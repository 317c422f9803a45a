"""What a running scheduler says of pods, beside its cycles: the same changes as `explain` says of files, and nothing stays of a trial."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.asked import asked, changes_of, dry_run
from support.explained import explained, node, pod, workload_of

from koordsched.api.kinds import NODE
from koordsched.cluster.port import Ref
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
