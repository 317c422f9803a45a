"""Resources under the names that scheduling knows them by (frameworkext.md §3): older names are renamed, amounts stay.

A name that is there already is not overwritten: the older one then stays beside it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from koordsched.api.quantity import QuantityError, milli_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from koordsched.api.core import Container, Pod, ResourceList

CPU = "cpu"

BATCH_RESOURCES = {f"koordinator.sh/{name}": f"kubernetes.io/{name}" for name in ("batch-cpu", "batch-memory")}
DEVICE_RESOURCES = {
    f"kubernetes.io/{name}": f"koordinator.sh/{name}" for name in ("rdma", "fpga", "gpu", "gpu-core", "gpu-memory", "gpu-memory-ratio")
}
"""Names that older versions gave to resources, and what they are called now."""


def renamed(names: Iterable[tuple[str, str]], amounts: ResourceList) -> ResourceList:
    """Return the amounts with resources renamed, in the order of `names`; the same dict when none of them is there.

    What was cpu becomes a number of milli-CPUs. A quantity that cannot be read stays as it is, for whoever reads it to report.
    """
    changed: ResourceList | None = None
    for old, new in names:
        at = amounts if changed is None else changed
        if old in at and new not in at:
            if changed is None:
                changed = dict(amounts)
            quantity = changed.pop(old)
            if old == CPU:
                with suppress(QuantityError):
                    quantity = milli_value(quantity)
            changed[new] = quantity
    return amounts if changed is None else changed


def renamed_by(names: Mapping[str, str], amounts: ResourceList) -> ResourceList:
    """Do the same by a table of names."""
    return renamed(names.items(), amounts)


def with_amounts(pod: Pod, change: Callable[[ResourceList], ResourceList]) -> Pod:
    """Return the pod with each of its lists of amounts changed: requests and limits of all containers, and the overhead."""
    spec = pod.spec
    containers = _changed(spec.containers, change)
    init_containers = _changed(spec.init_containers, change)
    overhead = change(spec.overhead)
    if containers is spec.containers and init_containers is spec.init_containers and overhead is spec.overhead:
        return pod
    return replace(pod, spec=replace(spec, containers=containers, init_containers=init_containers, overhead=overhead))


def _changed(containers: tuple[Container, ...], change: Callable[[ResourceList], ResourceList]) -> tuple[Container, ...]:
    changed = []
    for container in containers:
        asked = container.resources
        requests, limits = change(asked.requests), change(asked.limits)
        if requests is asked.requests and limits is asked.limits:
            changed.append(container)
        else:
            changed.append(replace(container, resources=replace(asked, requests=requests, limits=limits)))
    return containers if all(new is old for new, old in zip(changed, containers, strict=True)) else tuple(changed)
