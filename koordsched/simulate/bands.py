"""How pods of each of Koordinator's priority classes fared: a class is a band of priorities with resources of its own
(frameworkext.md §7)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from koordsched.api.koordinator.priority import (
    CLASS_RESOURCES,
    KoordinatorPriorityClass,
    priority_class_or_default,
    stated_priority_class,
)
from koordsched.framework.tooling import Section
from koordsched.simulate.pod_history import summed
from koordsched.simulate.result import SHARE_DIGITS, BandSummary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koordsched.api.core import Pod

OFFERED_TO_BANDS = frozenset(name for names in CLASS_RESOURCES.values() for name in names.values())
SHOWN = ("cpu", "memory", *sorted(OFFERED_TO_BANDS))


class BandCount:
    """Counts pods, one after the other. requests: what a pod on a node requests at the end, None for all others."""

    def __init__(self) -> None:
        self._pods: Counter[KoordinatorPriorityClass] = Counter()
        self._bound: Counter[KoordinatorPriorityClass] = Counter()
        self._requests: dict[KoordinatorPriorityClass, list[Mapping[str, int]]] = {}
        self._is_stated = False

    def add(self, pod: Pod, requests: Mapping[str, int] | None, *, bound: bool) -> None:
        band = priority_class_or_default(pod)
        self._is_stated = self._is_stated or bool(stated_priority_class(pod))
        self._pods[band] += 1
        self._bound[band] += bound
        if requests:
            self._requests.setdefault(band, []).append(requests)

    def summaries(self, offered: Mapping[str, int]) -> list[BandSummary]:
        """Return the bands that have pods, the most important first; none where nothing in the input speaks of bands."""
        if not self._is_stated and not OFFERED_TO_BANDS & offered.keys():
            return []
        order = [*(band for band in KoordinatorPriorityClass if band), KoordinatorPriorityClass.NONE]
        return [self._summary(band, offered) for band in order if self._pods[band]]

    def _summary(self, band: KoordinatorPriorityClass, offered: Mapping[str, int]) -> BandSummary:
        pods, bound, sums = self._pods[band], self._bound[band], summed(self._requests.get(band, ()))
        allocation = {name: round(sums[name] / offered[name], SHARE_DIGITS) for name in SHOWN if sums[name] and offered.get(name)}
        return BandSummary(band=band.value or "none", pods=pods, bound=bound, pending=pods - bound, allocation=allocation)


def band_section(bands: Sequence[BandSummary]) -> Section:
    """Return the table of the bands."""
    rows = [(each.band, str(each.pods), str(each.bound), str(each.pending), _shares(each.allocation)) for each in bands]
    notes = [
        "What the pods of each class on nodes request at the end, as a share of what all nodes together can give of it.",
        "Pods that state no class have that of their QoS class: koord-batch if they request neither cpu nor memory, else koord-prod.",
    ]
    columns = ("class", "pods", "bound", "pending", "requests")
    return Section(title="Priority bands", columns=columns, align="<>>><", rows=rows, notes=notes)


def _shares(allocation: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {100 * share:.1f} %" for name, share in allocation.items()) or "-"
