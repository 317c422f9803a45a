"""Alibaba's openb trace (cluster-trace-gpu-v2023, CSV) -> a workload.

A node has its GPUs in a Device, their sum as koordinator.sh/gpu-core and gpu-memory-ratio, and their model as the label
`node.koordinator.sh/gpu-model`. A pod asks for whole GPUs, or for `gpu_milli` of one as the same two resources, and, where `gpu_spec` lists
models (`A|B`), for a node with one of them. `qos` and `pod_phase` are not used. Numbers of CPU, memory and whole GPUs go into quantities as
they stand, so that the API's validation judges them; what is reckoned with is read here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from operator import itemgetter
from random import Random
from typing import Any

from msgspec.structs import replace

from koordsched.api.kinds import DEVICE, NODE, POD
from koordsched.manifests.completion import complete_node
from koordsched.manifests.documents import InputError
from koordsched.manifests.objects import Manifest
from koordsched.simulate.workload import PodArrival, Workload

GPU_CORE, GPU_RATIO = "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio"
PERCENT = 100
MILLI_PER_PERCENT = 10
MODEL_LABEL = "node.koordinator.sh/gpu-model"

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu")
CREATED, DELETED = "creation_time", "deletion_time"

MOST_DIGITS = 4
SHORTEST_RUN = 1.0
"""Seconds that a pod at least stays: the trace's clock ticks in seconds."""


def load_openb(nodes: str, pods: str, scheduler_name: str) -> Workload:
    """Read the trace's two files; pods come and go at its times where it has them.

    InputError: a file cannot be read, lacks a column, or holds a time that is none.
    """
    existing = []
    for origin, (name, cpu, memory, gpus, model) in _rows(nodes, NODE_COLUMNS):
        count = _whole_number(origin, "gpu", gpus)
        existing.append(Manifest(origin, NODE, _node(name, cpu, memory, count, model)))
        if count:
            existing.append(Manifest(origin, DEVICE, gpu_device(name, count, model)))
    made = _Pods(scheduler_name)
    arrivals = [
        PodArrival(Manifest(origin, POD, made.pod(origin, name, tuple(asked))), *_times(origin, created, deleted))
        for origin, (name, *asked, created, deleted) in _rows(pods, POD_COLUMNS, ("gpu_milli", "gpu_spec", CREATED, DELETED))
    ]
    arrivals.sort(key=lambda arrival: arrival.at)
    return Workload(existing, arrivals)


def inflated(workload: Workload, percent: int, seed: int) -> list[PodArrival]:
    """Draw pods with replacement, seeded, until they request so many percent of the GPUs there are; they come at once and stay.

    This is how the paper of the trace measures schedulers ("inflation"). InputError: there are no GPUs, or no pod asks for one.
    """
    offered = sum(len(manifest.body["spec"]["devices"]) * PERCENT for manifest in workload.existing if manifest.kind is DEVICE)
    requested = [requested_share(arrival) for arrival in workload.arrivals]
    if not offered or not any(requested):
        raise InputError("--inflate: the trace has no GPUs, or no pods that request some")
    random, drawn, sum_requested = Random(f"inflate {seed}"), list[PodArrival](), 0
    while sum_requested * PERCENT < offered * percent:
        place = random.randrange(len(requested))
        sum_requested += requested[place]
        drawn.append(_copy(workload.arrivals[place], len(drawn)))
    return drawn


def requested_share(arrival: PodArrival) -> int:
    """Return the percent of a GPU that the pod of a trace requests, more than 100 for several."""
    (container,) = arrival.manifest.body["spec"]["containers"]
    return int(container["resources"]["requests"].get(GPU_CORE, 0))


def _copy(arrival: PodArrival, number: int) -> PodArrival:
    body = arrival.manifest.body
    named = {**body, "metadata": {**body["metadata"], "name": f"{body['metadata']['name']}-{number}"}}
    return PodArrival(replace(arrival.manifest, body=named))


def _rows(file: str, columns: tuple[str, ...], optional: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what each line of a CSV file says in these columns, with where it stands. What it leaves out is ""."""
    try:
        with open(file, "rb") as opened:
            text = opened.read().decode("utf-8-sig")
    except OSError as mistake:
        raise InputError(f"{file}: cannot be read: {mistake.strerror}") from None
    except ValueError:
        raise InputError(f"{file}: not UTF-8 text") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        missing = [column for column in columns if column not in header]
        if missing:
            raise InputError(f"{file}: line 1: no column {', '.join(missing)}; expected {','.join(columns)}")
        width = len(header)
        index = {column: position for position, column in enumerate(header)}
        pick = itemgetter(*(index.get(column, width) for column in (*columns, *optional)))
        blank = [""] * width
        for cells in reader:
            if cells:
                whole = cells if len(cells) == width else [*cells, *blank][:width]
                whole.append("")  # for a column that is not there
                yield f"{file}: line {reader.line_num}", pick(whole)
    except csv.Error as mistake:
        raise InputError(f"{file}: line {reader.line_num}: not CSV: {mistake}") from None


def _node(name: str, cpu: str, memory: str, gpus: int, model: str) -> dict[str, Any]:
    allocatable = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    if gpus:
        allocatable |= dict.fromkeys((GPU_CORE, GPU_RATIO), str(gpus * PERCENT))
    metadata = {"name": name, "labels": {MODEL_LABEL: model} if model else {}}
    return complete_node({"kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}})


def gpu_device(name: str, gpus: int, model: str) -> dict[str, Any]:
    """Return the Device of a node with so many GPUs of a model ("": it has none to say)."""
    each = {"type": "gpu", "health": True, "resources": {GPU_CORE: str(PERCENT), GPU_RATIO: str(PERCENT)}}
    return {
        "apiVersion": DEVICE.api_version,
        "kind": DEVICE.kind,
        "metadata": {"name": name, "labels": {MODEL_LABEL: model} if model else {}},
        "spec": {"devices": [{**each, "minor": minor, "id": f"{name}-gpu-{minor}"} for minor in range(gpus)]},
    }


class _Pods:
    """Makes pods of rows; pods with equal requests share their spec, which is never written to."""

    def __init__(self, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self._specs: dict[tuple[str, ...], dict[str, Any]] = {}

    def pod(self, origin: str, name: str, asked: tuple[str, ...]) -> dict[str, Any]:
        spec = self._specs.get(asked)
        if spec is None:
            spec = self._specs[asked] = _spec(origin, asked, self._scheduler_name)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _spec(origin: str, asked: Sequence[str], scheduler_name: str) -> dict[str, Any]:
    cpu, memory, gpus, milli, models = asked
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    resources = {"requests": requests}
    if count := _whole_number(origin, "num_gpu", gpus):
        share = -(-_whole_number(origin, "gpu_milli", milli) // MILLI_PER_PERCENT) or PERCENT
        shares = dict.fromkeys((GPU_CORE, GPU_RATIO), str(share if count == 1 else count * PERCENT))
        requests |= shares
        resources["limits"] = shares
    spec: dict[str, Any] = {
        "schedulerName": scheduler_name,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "pause", "resources": resources}],
    }
    if models:
        spec["affinity"] = model_affinity(models)
    return spec


def model_affinity(models: str) -> dict[str, Any]:
    """Return the affinity for nodes with one of these models (`A|B`)."""
    expression = {"key": MODEL_LABEL, "operator": "In", "values": models.split("|")}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _whole_number(origin: str, column: str, text: str) -> int:
    """Read a number of GPUs, or of thousandths of one; 0 where the trace does not say."""
    if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS:
        return int(text)
    if text:
        raise InputError(f"{origin}: {column}: {text!r}: expected a whole number of at most {MOST_DIGITS} digits")
    return 0


def _times(origin: str, came: str, left: str) -> tuple[float, float | None]:
    """Return when the pod comes and goes, in seconds; at 0 and never where the trace does not say."""
    created = _seconds(origin, CREATED, came) if came else 0.0
    deleted = _seconds(origin, DELETED, left) if left else None
    return created, None if deleted is None else max(deleted, created + SHORTEST_RUN)


def _seconds(origin: str, column: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e11:  # noqa: PLR2004  # three thousand years; refuses nan and inf too
        raise InputError(f"{origin}: {column}: {text!r}: expected a number of seconds")
    return seconds
