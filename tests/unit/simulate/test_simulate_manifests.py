"""Manifests in files as a workload."""

from __future__ import annotations

from pathlib import Path

from koordsched.simulate.manifests import load_manifests
from koordsched.simulate.workload import Workload

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: main}]}\n"


def load(tmp_path: Path, text: str, profiles: tuple[str, ...] = ("koord-scheduler",)) -> Workload:
    (tmp_path / "f.yaml").write_text(text)
    return load_manifests([str(tmp_path / "f.yaml")], list(profiles))


def lines(tmp_path: Path, workload: Workload) -> list[str]:
    return [rejection.line.removeprefix(f"{tmp_path}/") for rejection in workload.rejected]


def test_documents_and_lists_become_objects_that_know_where_they_stand(tmp_path: Path) -> None:
    listed = "---\nkind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: ns}}\n"
    workload = load(tmp_path, POD % "a" + listed)
    assert [(arrival.manifest.origin, arrival.manifest.key) for arrival in workload.arrivals] == [
        (f"{tmp_path}/f.yaml: document 1", "default/a"),
        (f"{tmp_path}/f.yaml: document 2: items[0]", "ns/b"),
    ]


def test_lists_in_lists_are_opened_too(tmp_path: Path) -> None:
    nodes = "{apiVersion: v1, kind: NodeList, items: [{metadata: {name: n1}}]}"
    pods = "{apiVersion: v1, kind: PodList, items: [{metadata: {name: a}}, 5]}"
    workload = load(tmp_path, f"{{apiVersion: v1, kind: List, items: [{nodes}, {pods}]}}")
    assert [manifest.key for manifest in workload.existing] == ["n1"]
    assert [arrival.manifest.origin for arrival in workload.arrivals] == [f"{tmp_path}/f.yaml: document 1: items[1]: items[0]"]
    assert lines(tmp_path, workload) == ["f.yaml: document 1: items[1]: items[1]: (root): 5: expected an object"]
    assert workload.notes == []


def test_items_of_a_typed_list_may_leave_their_kind_out(tmp_path: Path) -> None:
    workload = load(tmp_path, "kind: NodeList\napiVersion: v1\nitems: [{metadata: {name: n1}}]")
    assert [(manifest.kind.kind, manifest.key) for manifest in workload.existing] == [("Node", "n1")]


def test_bound_pods_exist_before_others_arrive_and_namespaces_before_everything(tmp_path: Path) -> None:
    bound = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: bound}\nspec: {nodeName: n1, containers: [{name: main}]}\n"
    others = "---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\n"
    workload = load(tmp_path, POD % "a" + bound + others)
    assert [manifest.key for manifest in workload.existing] == ["ns", "n1", "default/bound"]
    assert [arrival.manifest.key for arrival in workload.arrivals] == ["default/a"]


def test_pods_arrive_in_the_order_of_their_creation_where_they_state_it(tmp_path: Path) -> None:
    stamped = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, creationTimestamp: '%s'}\n"
    text = POD % "unstamped" + stamped % ("late", "2026-01-02T00:00:00Z") + stamped % ("early", "2026-01-01T00:00:00Z")
    workload = load(tmp_path, text + stamped % ("malformed", "yesterday"))
    assert [arrival.manifest.ref.name for arrival in workload.arrivals] == ["early", "late", "unstamped", "malformed"]


def test_a_dumped_pod_is_made_new(tmp_path: Path) -> None:
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: u, resourceVersion: '5', labels: {x: z}}\n"
        "spec: {schedulerName: default-scheduler, terminationGracePeriodSeconds: 30, containers: [{name: c}]}\n"
        "status: {phase: Pending, nominatedNodeName: n9, conditions: [{type: PodScheduled, status: 'False'}]}\n"
    )
    (arrival,) = load(tmp_path, text).arrivals
    assert arrival.manifest.body["metadata"] == {"name": "a", "labels": {"x": "z"}, "namespace": "default"}
    assert arrival.manifest.body["spec"]["schedulerName"] == "koord-scheduler"
    assert arrival.manifest.body["spec"]["terminationGracePeriodSeconds"] == 0
    assert arrival.manifest.body["status"] == {"phase": "Pending"}


def test_a_pod_for_a_scheduler_of_its_own_keeps_it(tmp_path: Path) -> None:
    text = POD.replace("spec: {", "spec: {schedulerName: %s, ")
    assert load(tmp_path, text % ("a", "mine")).arrivals[0].manifest.body["spec"]["schedulerName"] == "mine"
    workload = load(tmp_path, text % ("a", "default-scheduler"), ("koord-scheduler", "default-scheduler"))
    assert workload.arrivals[0].manifest.body["spec"]["schedulerName"] == "default-scheduler"


def test_pods_that_have_ended_are_left_out(tmp_path: Path) -> None:
    ended = POD % "ended" + "status: {phase: Succeeded}\n"
    deleted = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: deleted, deletionTimestamp: '2026-01-01T00:00:00Z'}\n"
    workload = load(tmp_path, ended + deleted)
    assert (workload.arrivals, workload.existing, workload.rejected) == ([], [], [])


def test_kinds_without_meaning_for_scheduling_are_counted_and_left_out(tmp_path: Path) -> None:
    deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n---\n"
    assert load(tmp_path, deployment * 2).notes == ["note: left out: 2 Deployment (apps/v1), which scheduling does not look at"]


def test_a_known_kind_in_another_version_is_left_out_with_the_one_that_is_read(tmp_path: Path) -> None:
    text = "{apiVersion: policy/v1beta1, kind: PodDisruptionBudget, metadata: {name: a}}"
    other = "{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: a}}"
    event = "{apiVersion: v1, kind: Event, metadata: {name: a}}"
    assert load(tmp_path, f"{text}\n---\n{other}\n---\n{event}").notes == [
        "note: left out: 1 PodDisruptionBudget (policy/v1beta1); what is read is PodDisruptionBudget (policy/v1)",
        "note: left out: 1 Service (serving.knative.dev/v1), which scheduling does not look at",
        "note: left out: 1 Event (v1), which scheduling does not look at",
    ]


def test_pods_on_nodes_that_are_not_in_the_input_are_noted(tmp_path: Path) -> None:
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {nodeName: %s}}\n---\n"
    node = "{apiVersion: v1, kind: Node, metadata: {name: n1}}"
    text = pod % ("a", "n1") + pod % ("b", "n2") + pod % ("c", "n3") + pod % ("d", "[n3]")
    assert load(tmp_path, text + node).notes == [
        "note: 2 of the pods run on nodes that the input does not have, default/b on n2 for example"
    ]


def test_what_is_no_object_is_rejected_and_the_rest_goes_on(tmp_path: Path) -> None:
    documents = [
        "5",
        "kind: Pod",
        "{apiVersion: v1, kind: [Pod]}",
        "{apiVersion: v1, kind: Pod, metadata: x}",
        "{apiVersion: v1, kind: Pod, metadata: {name: 5}}",
        "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: [b]}}",
        "{apiVersion: v1, kind: List, items: [x]}",
        POD % "good",
    ]
    workload = load(tmp_path, "\n---\n".join(documents))
    assert lines(tmp_path, workload) == [
        "f.yaml: document 1: (root): 5: expected an object",
        "f.yaml: document 2: apiVersion: missing: expected a text",
        'f.yaml: document 3: kind: ["Pod"]: expected a text',
        'f.yaml: document 4: Pod: metadata: "x": expected an object',
        "f.yaml: document 5: Pod: metadata.name: 5: expected a text",
        'f.yaml: document 6: Pod: metadata.namespace: ["b"]: expected a text',
        'f.yaml: document 7: items[0]: (root): "x": expected an object',
    ]
    assert [arrival.manifest.key for arrival in workload.arrivals] == ["default/good"]


def test_classes_and_volumes_exist_before_claims_and_uids_of_another_cluster_are_left_out(tmp_path: Path) -> None:
    text = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c, uid: u1, ownerReferences: [{kind: Pod, name: p, uid: u2, controller: true}]}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: v}
spec: {claimRef: {namespace: default, name: c, uid: u1, resourceVersion: "7"}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: s}, provisioner: x}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: free}, spec: {}}
"""
    made = {manifest.key: manifest.body for manifest in load(tmp_path, text).existing}
    assert list(made) == ["v", "s", "free", "default/c"]
    assert made["v"]["spec"]["claimRef"] == {"namespace": "default", "name": "c"}
    assert made["default/c"]["metadata"]["ownerReferences"] == [{"kind": "Pod", "name": "p", "controller": True}]
