"""Plays the controllers that bind and provision volumes: a pod with a waiting claim is bound only once these have done their part.

kube-scheduler says what it wants in the volume (claimRef) or in the claim (the annotation selected-node); this carries it out.
"""

from __future__ import annotations

from support.controlplane.rest import Rest
from support.differential.choosing import Json

SELECTED_NODE = "volume.kubernetes.io/selected-node"
COMPLETED = "pv.kubernetes.io/bind-completed"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


def attend(rest: Rest) -> None:
    """Bind every claim for which the scheduler has chosen a volume or a node."""
    volumes = rest.get(VOLUMES)["items"]
    chosen = {volume["spec"]["claimRef"]["name"]: volume for volume in volumes if volume["spec"].get("claimRef")}
    for claim in rest.get(CLAIMS)["items"]:
        if claim["spec"].get("volumeName"):
            continue
        volume = chosen.get(claim["metadata"]["name"])
        if volume is None and SELECTED_NODE in claim["metadata"].get("annotations", {}):
            volume = rest.create(VOLUMES, provisioned(claim))
        if volume is not None:
            bind(rest, claim["metadata"]["name"], volume["metadata"]["name"])


def bind(rest: Rest, claim: str, volume: str) -> None:
    rest.patch(f"{VOLUMES}/{volume}/status", {"status": {"phase": "Bound"}})
    rest.patch(f"{CLAIMS}/{claim}", {"metadata": {"annotations": {COMPLETED: "yes"}}, "spec": {"volumeName": volume}})
    rest.patch(f"{CLAIMS}/{claim}/status", {"status": {"phase": "Bound"}})


def provisioned(claim: Json) -> Json:
    """Return a new volume for the claim, reachable from everywhere."""
    metadata = claim["metadata"]
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": metadata["name"], "namespace": metadata["namespace"]}
    spec = {
        "capacity": claim["spec"]["resources"]["requests"],
        "accessModes": claim["spec"]["accessModes"],
        "storageClassName": claim["spec"]["storageClassName"],
        "claimRef": {**reference, "uid": metadata["uid"]},
        "csi": {"driver": "csi.example.com", "volumeHandle": f"made-for-{metadata['name']}"},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"made-for-{metadata['name']}"}, "spec": spec}
