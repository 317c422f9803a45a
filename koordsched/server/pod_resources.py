"""/metrics/resources: what each live pod requests, and its limits (framework.md §12).

There is a line a resource of every pod of the cluster, so they are written a few pods at a time: scheduling goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koordsched.api.quantity import NANO_PER_UNIT, QuantityError
from koordsched.api.resources import written_totals

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from koordsched.api.core import Pod

PODS_A_TURN = 50
REQUEST, LIMIT = "kube_pod_resource_request", "kube_pod_resource_limit"
HELP = {
    REQUEST: "What the scheduler takes a pod to request, by resource.",
    LIMIT: "What the scheduler takes for the limits of a pod, by resource.",
}
BYTES = frozenset({"memory", "storage", "ephemeral-storage"})
TERMINAL = frozenset({"Succeeded", "Failed"})


async def resource_metrics(pods: Collection[Pod]) -> bytes:
    """Return the gauges of these pods in Prometheus' text format. A pod whose resources cannot be read is left out."""
    lines: dict[str, list[str]] = {name: [f"# HELP {name} {text}", f"# TYPE {name} gauge"] for name, text in HELP.items()}
    for number, pod in enumerate(list(pods)):
        if number % PODS_A_TURN == 0:
            await asyncio.sleep(0)
        if pod.status.phase in TERMINAL:
            continue
        try:
            requests, limits = written_totals(pod)
        except QuantityError:
            continue
        lines[REQUEST] += _lines(REQUEST, pod, requests)
        lines[LIMIT] += _lines(LIMIT, pod, limits)
    return "".join(f"{line}\n" for name in HELP for line in lines[name]).encode()


def _lines(metric: str, pod: Pod, amounts: Mapping[str, int]) -> Iterator[str]:
    meta, spec = pod.metadata, pod.spec
    priority = "" if spec.priority is None else spec.priority
    whose = (
        f'namespace="{meta.namespace}",pod="{meta.name}",node="{spec.node_name}",scheduler="{spec.scheduler_name}",priority="{priority}"'
    )
    for resource, amount in amounts.items():
        if amount:
            yield f'{metric}{{{whose},resource="{resource}",unit="{_unit(resource)}"}} {amount / NANO_PER_UNIT}'


def _unit(resource: str) -> str:
    if resource == "cpu":
        return "cores"
    if resource in BYTES or resource.startswith("hugepages-"):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""
