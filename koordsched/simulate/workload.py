"""What a simulation is about: objects that are there, and pods that come and go."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from koordsched.api.kinds import NODE, NODE_METRIC
from koordsched.clock import VIRTUAL_EPOCH, parse_rfc3339
from koordsched.framework.tooling import NodeOption
from koordsched.manifests.objects import Manifest, Rejection


class PodArrival(msgspec.Struct, frozen=True):
    """A pod that is submitted `at` so many seconds after the start. It is deleted at `departs`, or when it has been on a node for `runs`
    seconds; None: it stays."""

    manifest: Manifest
    at: float = 0.0
    departs: float | None = None
    runs: float | None = None


def all_at_once(arrivals: list[PodArrival], order: str, seed: int) -> list[PodArrival]:
    """Let all pods come at the start and stay, in the order of their arrival ("arrival") or shuffled ("random")."""
    made = [PodArrival(arrival.manifest) for arrival in arrivals]
    if order == "random":
        Random(f"order {seed}").shuffle(made)
    return made


class Workload(msgspec.Struct):
    """Objects in the order of their creation before the scheduler starts, then pods in the order of their submission."""

    existing: list[Manifest] = []
    arrivals: list[PodArrival] = []
    rejected: list[Rejection] = []
    notes: list[str] = []  # what else the user should know about the input

    @property
    def departs(self) -> bool:
        """Return whether some pod leaves again."""
        return any(arrival.departs is not None or arrival.runs is not None for arrival in self.arrivals)

    @property
    def is_timed(self) -> bool:
        """Return whether pods come or go at times of their own."""
        return self.departs or any(arrival.at for arrival in self.arrivals)

    @property
    def epoch(self) -> float:
        """Return the time at which the simulation begins: that of the NodeMetrics, so that they are as old as when they were read, else a
        fixed one. It is their median: neither a node whose clock is wrong nor one that measures no more may age the others."""
        times = sorted(_measured_at(manifest) for manifest in self.existing if manifest.kind is NODE_METRIC)
        known = [time for time in times if time > 0.0]
        return known[len(known) // 2] if known else VIRTUAL_EPOCH

    def give_nodes(self, option: NodeOption, value: Any) -> None:
        """Add the option's object for each node that has none, and note what does not go with it."""
        described = {manifest.key for manifest in self.existing if manifest.kind is option.kind}
        bare = [manifest for manifest in self.existing if manifest.kind is NODE and manifest.key not in described]
        self.existing += [Manifest(f"{node.origin}: {option.flag}", option.kind, option.make(value, node.body)) for node in bare]
        if doubt := option.doubt(value, [node.body for node in bare]):
            self.notes.append(f"note: {doubt}")


def _measured_at(metric: Manifest) -> float:
    """Return when a NodeMetric was measured, in seconds since the epoch; 0.0 when it does not say."""
    status = metric.body.get("status")
    text = status.get("updateTime") if isinstance(status, dict) else None
    try:
        return parse_rfc3339(text) if isinstance(text, str) else 0.0
    except ValueError:
        return 0.0
