"""Recorded trials: what was on a cluster, what happened, and what the reference decided about each pod. One line of JSON a trial."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from support.differential.choosing import Json


class RecordedStep(msgspec.Struct, omit_defaults=True):
    """One pod.

    `at`: seconds since the trial was begun when the pod was created; what was written and deleted before it is as the generator made it.
    `message` is the first refusal; `node`, where the pod went in the end, if anywhere, maybe after `evicted` (names of pods) had to go.
    `scheduled` is the relative moment of the condition that it got then. `scores` are by plugin, in the order of `nodes`, which are those
    that were feasible, if there was a choice; a plugin that gave 0 to all of them is left out. `annotations` are those that the pod got
    when it was bound, or got anew.
    """

    at: int
    pod: Json
    written: list[Json] = []
    deleted: list[Json] = []
    node: str = ""
    message: str = ""
    nominated: str = ""
    nodes: list[str] = []
    scores: dict[str, list[int]] = {}
    scheduled: str = ""
    evicted: list[str] = []
    annotations: dict[str, str] = {}


class Recording(msgspec.Struct, omit_defaults=True):
    """One cluster with its pods; `name` says of which area, seed and number it is."""

    name: str
    config: Json
    objects: list[Json]
    steps: list[RecordedStep]
    gates: str = ""


def load(path: Path) -> Iterator[Recording]:
    with path.open("rb") as lines:
        yield from (msgspec.json.decode(line, type=Recording) for line in lines)


def append(path: Path, recording: Recording) -> None:
    with path.open("ab") as file:
        file.write(msgspec.json.encode(recording, order="sorted") + b"\n")
