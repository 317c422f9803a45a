"""/metrics/resources: what each live pod requests, and its limits (framework.md §12).

There is a line for each resource of every pod of the cluster, so they are written a few pods at a time, and without a metric family in
between: prometheus-client takes three times as long: at 5,000 pods 150 ms instead of 50 in which the scheduling loop runs half as fast.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from koordsched.api.quantity import NANO_PER_UNIT, QuantityError
from koordsched.api.resources import written_totals
from koordsched.metrics import Family, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.core import Pod
    from koordsched.slices import Slices

PODS_A_PIECE = 50
REQUEST, LIMIT = "kube_pod_resource_request", "kube_pod_resource_limit"
HELP = {
    REQUEST: "What the scheduler takes a pod to request, by resource.",
    LIMIT: "What the scheduler takes for the limits of a pod, by resource.",
}
LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
BYTES = frozenset({"memory", "storage", "ephemeral-storage"})
TERMINAL = frozenset({"Succeeded", "Failed"})

NEEDS_NO_ESCAPE = re.compile(r"[\w./:-]*", re.ASCII).fullmatch
"""Holds for nearly every value: what it does not hold for is written by prometheus-client, which knows how."""


async def resource_metrics(pods: Sequence[Pod], work: Slices) -> bytes:
    """Return the gauges of these pods in Prometheus' text format; `work` is entered. A pod whose resources cannot be read is left out."""
    pieces = {name: [text_of([Family(name, HELP[name], "gauge", [])]).decode()] for name in (REQUEST, LIMIT)}
    for start in range(0, len(pods), PODS_A_PIECE):
        for pod in pods[start : start + PODS_A_PIECE]:
            if pod.status.phase in TERMINAL:
                continue
            try:
                requests, limits = written_totals(pod)
            except QuantityError:
                continue
            _write(pieces[REQUEST], REQUEST, pod, requests)
            _write(pieces[LIMIT], LIMIT, pod, limits)
        await work.pause()
    return "".join(piece for name in pieces for piece in pieces[name]).encode()


def _write(lines: list[str], name: str, pod: Pod, amounts: dict[str, int]) -> None:
    """Add a line for each amount in nano-units that is not 0, as prometheus-client writes it: labels in the order of their names."""
    meta, spec = pod.metadata, pod.spec
    namespace, node, scheduler = meta.namespace, spec.node_name, spec.scheduler_name
    priority = "" if spec.priority is None else str(spec.priority)
    plain = NEEDS_NO_ESCAPE(f"{namespace}{node}{meta.name}{scheduler}")
    for resource, amount in amounts.items():
        if not amount:
            continue
        if plain and NEEDS_NO_ESCAPE(resource):
            lines.append(
                f'{name}{{namespace="{namespace}",node="{node}",pod="{meta.name}",priority="{priority}",resource="{resource}",'
                f'scheduler="{scheduler}",unit="{_unit(resource)}"}} {_number(amount)}\n'
            )
        else:
            lines.append(_escaped(name, (namespace, meta.name, node, scheduler, priority, resource, _unit(resource)), amount))


def _escaped(name: str, labels: tuple[str, ...], amount: int) -> str:
    family = Family(name, "", "gauge", [(labels, amount / NANO_PER_UNIT)], LABELS)
    return text_of([family]).decode().split("\n", 2)[2]  # without HELP and TYPE: a page has them once


@lru_cache(maxsize=4096)
def _number(amount: int) -> str:
    from prometheus_client.utils import floatToGoString  # noqa: PLC0415  # see koordsched.metrics.exposition

    return str(floatToGoString(amount / NANO_PER_UNIT))  # type: ignore[no-untyped-call]  # the library has no types there


def _unit(resource: str) -> str:
    if resource == "cpu":
        return "cores"
    if resource in BYTES or resource.startswith("hugepages-"):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""
