"""/metrics/resources: what each live pod requests, and its limits (framework.md §12).

There is a line a resource of every pod of the cluster, so they are written a few pods at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.quantity import NANO_PER_UNIT, QuantityError
from koordsched.api.resources import written_totals
from koordsched.scheduler.measures import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prometheus_client.metrics_core import Metric

    from koordsched.api.core import Pod
    from koordsched.slices import Slices

PODS_A_PIECE = 50
REQUEST, LIMIT = "kube_pod_resource_request", "kube_pod_resource_limit"
HELP = {
    REQUEST: "What the scheduler takes a pod to request, by resource.",
    LIMIT: "What the scheduler takes for the limits of a pod, by resource.",
}
BYTES = frozenset({"memory", "storage", "ephemeral-storage"})
TERMINAL = frozenset({"Succeeded", "Failed"})


LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")


async def resource_metrics(pods: Sequence[Pod], work: Slices) -> bytes:
    """Return the gauges of these pods in Prometheus' text format; `work` is entered. A pod whose resources cannot be read is left out."""
    pieces = {name: [text_of([family])] for name, family in _families([]).items()}
    for start in range(0, len(pods), PODS_A_PIECE):
        for name, family in _families(pods[start : start + PODS_A_PIECE]).items():
            pieces[name].append(_samples(text_of([family])))
        await work.pause()
    return b"".join(piece for name in pieces for piece in pieces[name])


def _families(pods: Iterable[Pod]) -> dict[str, Metric]:
    from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415  # see measures' docstring

    families = {name: GaugeMetricFamily(name, text, labels=LABELS) for name, text in HELP.items()}
    for pod in pods:
        if pod.status.phase in TERMINAL:
            continue
        try:
            requests, limits = written_totals(pod)
        except QuantityError:
            continue
        meta, spec = pod.metadata, pod.spec
        priority = "" if spec.priority is None else str(spec.priority)
        whose = meta.namespace, meta.name, spec.node_name, spec.scheduler_name, priority
        for family, amounts in ((families[REQUEST], requests), (families[LIMIT], limits)):
            for resource, amount in amounts.items():
                if amount:
                    family.add_metric((*whose, resource, _unit(resource)), amount / NANO_PER_UNIT)
    return dict(families)


def _samples(text: bytes) -> bytes:
    """Leave out HELP and TYPE, the first two lines of a family's text: a page has them once."""
    return text.split(b"\n", 2)[2]


def _unit(resource: str) -> str:
    if resource == "cpu":
        return "cores"
    if resource in BYTES or resource.startswith("hugepages-"):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""
