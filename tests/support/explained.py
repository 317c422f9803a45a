"""Small clusters as manifests, what is said of their pods, and stated changes made to the manifests, apart from the code of trials."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

from koordsched.api.kinds import POD
from koordsched.api.quantity import milli_value, value
from koordsched.cluster.port import Ref
from koordsched.config.flag_table import Flags
from koordsched.config.loading import default_config
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions, run_embedded
from koordsched.explain.cluster import PodQuestion, explain
from koordsched.scheduler.suggestions.explanation import Explanation
from koordsched.simulate.manifests import load_manifests
from koordsched.simulate.simulation import Simulation
from koordsched.simulate.workload import Workload

Json = dict[str, Any]

PROFILE = "koord-scheduler"
MEBI = 1 << 20


def node(name: str, cpu: Any = "4", memory: str = "8Gi", *, labels: Json | None = None, more: Json | None = None, **spec: Any) -> Json:
    allocatable = {"cpu": cpu, "memory": memory, **(more or {})}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": {"allocatable": allocatable}}


def pod(name: str, requests: Json, *, labels: Json | None = None, annotations: Json | None = None, **spec: Any) -> Json:
    metadata = {"name": name, "namespace": "default", "labels": labels or {}, "annotations": annotations or {}}
    container = {"name": "main", "image": "pause", "resources": {"requests": requests}}
    extended = {key: value for key, value in requests.items() if "/" in key}
    if extended:
        container["resources"]["limits"] = extended  # type: ignore[index]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def workload_of(objects: list[Json]) -> Workload:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cluster.json")
        file.write_text("\n".join(json.dumps(each) for each in objects))
        return load_manifests([str(file)], [PROFILE])


def explained(objects: list[Json], name: str = "web", *, changes: bool = True) -> Explanation:
    return explain(PodQuestion(pod=f"default/{name}", workload=workload_of(objects), config=default_config(), changes=changes))


def node_of(objects: list[Json], name: str = "web") -> str:
    """Return where the pod is bound when these objects are there from the start, "" for nowhere."""
    config = default_config()
    workload = workload_of(objects)
    flags = Flags(enable_network_topology_manager=True)
    options = EmbeddedOptions(config=config, flags=flags, lasting=True, measured=False, epoch=workload.epoch)

    async def script(embedded: EmbeddedCluster) -> str:
        simulation = Simulation(workload, embedded, None)
        await simulation.play(30.0)
        assert not simulation.rejected, simulation.rejected
        return str(embedded.cluster.raw(Ref(POD, "default", name))["spec"].get("nodeName", ""))

    return run_embedded(options, script)


def changed(objects: list[Json], changes: Any, name: str = "web") -> list[Json]:
    """Return the objects with stated changes (`Explanation.changes[].changes`) made to them, to each member of the pod's gang alike."""
    made = copy.deepcopy(objects)
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in made}
    subject = by_name["Pod", name]
    gang = subject["metadata"]["labels"].get("pod-group.scheduling.sigs.k8s.io")
    alike = [
        each
        for each in made
        if each is subject
        or (gang and each["kind"] == "Pod" and each["metadata"]["labels"].get("pod-group.scheduling.sigs.k8s.io") == gang)
    ]
    for change in changes:
        for body in alike:
            _change_pod(body, change)
        match change["kind"]:
            case "uncordon":
                by_name["Node", change["node"]]["spec"].pop("unschedulable")
            case "nodeLabel":
                by_name["Node", change["node"]]["metadata"]["labels"][change["label"]] = change["value"]
            case "addNodes":
                for i in range(change["nodes"]):
                    extra = copy.deepcopy(by_name["Node", change["template"]])
                    extra["metadata"]["name"] = f"extra-{i}"
                    extra["metadata"]["labels"]["kubernetes.io/hostname"] = f"extra-{i}"
                    extra["spec"].pop("unschedulable", None)
                    made.append(extra)
                    for kind in ("Device", "NodeResourceTopology"):
                        if (kind, change["template"]) in by_name:
                            described = copy.deepcopy(by_name[kind, change["template"]])
                            described["metadata"]["name"] = f"extra-{i}"
                            made.append(described)
            case "removePods":
                gone = {key.partition("/")[2] for key in change["pods"]}
                made = [each for each in made if each["kind"] != "Pod" or each["metadata"]["name"] not in gone]
            case "addMembers":
                for i in range(change["members"]):
                    extra = copy.deepcopy(subject)
                    extra["metadata"]["name"] = f"extra-{i}"
                    made.append(extra)
            case "gangMinimum":
                by_name["PodGroup", change["gang"]]["spec"]["minMember"] = change["to"]
            case "quota":
                quota = by_name["ElasticQuota", change["quota"]]["spec"]
                quota["max"][change["resource"]] = change["to"]
                if change["min"]:
                    quota["min"][change["resource"]] = change["to"]  # min is max in the clusters that are drawn here
    return made


def _change_pod(body: Json, change: Json) -> None:
    spec = body["spec"]
    match change["kind"]:
        case "request":
            resources = spec["containers"][0]["resources"]
            for resource in change["resources"]:
                for section in ("requests", "limits"):
                    if resource in resources.get(section, {}):
                        resources[section][resource] = change["to"]
        case "toleration":
            spec["tolerations"] = [*spec.get("tolerations", []), *change["tolerations"]]
        case "nodeSelector":
            spec["nodeSelector"].pop(change["key"])
        case "podAffinity" | "podAntiAffinity" as kind:
            spec["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"].pop(change["index"])
        case "topologySpread":
            spec["topologySpreadConstraints"][0]["maxSkew"] = change["to"]
        case "topologySpreadConstraint":
            spec["topologySpreadConstraints"].pop(change["index"])
        case "hostPort":
            spec["containers"][0]["ports"] = [port for port in spec["containers"][0]["ports"] if port["hostPort"] != change["hostPort"]]
        case "volume":
            spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] != change["volume"]]
        case "annotation":
            body["metadata"]["annotations"].pop(change["annotation"])
        case "reservation":
            body["metadata"]["labels"].update(change["labels"])
        case "schedulingGates":
            spec.pop("schedulingGates")


def smaller(change: Json, *, whole_cpus: bool = False) -> list[Json]:
    """Return changes of the same kind that are the next smaller ones; none where the change is there or not.

    whole_cpus: the pod gets whole CPUs of its own.
    """
    match change["kind"]:
        case "request":
            amount = _amount(change["to"], change["resources"][0])
            nearer = amount + (MEBI if "memory" in change["resources"] else 1000 if whole_cpus else 1)
            if change["resources"][0].startswith("koordinator.sh/gpu") and amount >= 99:
                nearer = amount + 1 if amount == 99 else amount + 100
            text = f"{nearer}m" if "cpu" in change["resources"] else str(nearer)
            return [] if nearer >= _amount(change["from"], change["resources"][0]) else [{**change, "to": text}]
        case "addNodes":
            return [{**change, "nodes": change["nodes"] - 1}] if change["nodes"] > 1 else []
        case "addMembers":
            return [{**change, "members": change["members"] - 1}] if change["members"] > 1 else []
        case "gangMinimum":
            return [{**change, "to": change["to"] + 1}] if change["to"] + 1 < change["from"] else []
        case "topologySpread":
            return [{**change, "to": change["to"] - 1}] if change["to"] - 1 > change["from"] else []
        case "quota":
            less = _amount(change["to"], change["resource"]) - (1 if change["resource"] == "cpu" else MEBI)
            text = f"{less}m" if change["resource"] == "cpu" else str(less)
            return [{**change, "to": text}] if less > _amount(change["from"], change["resource"]) else []
        case "removePods":
            return (
                [{**change, "pods": [other for other in change["pods"] if other != pod]} for pod in change["pods"]]
                if len(change["pods"]) > 1
                else []
            )
        case "toleration":
            given = change["tolerations"]
            return [{**change, "tolerations": [other for other in given if other is not one]} for one in given] if len(given) > 1 else []
    return []


def _amount(text: str, resource: str) -> int:
    return milli_value(text) if resource == "cpu" else value(text)
