"""The folder of a sweep's results: a file for each run that is done, and the tables of all.

`runs/DIGEST.json` is written as a whole or not at all. What cannot be read counts as missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import msgspec

from koordsched.api.meta import JSON_ERRORS
from koordsched.files import write_atomically
from koordsched.simulate.result import json_text
from koordsched.sweep.format import ConfigurationSource, Sweep, SweepInput
from koordsched.sweep.identity import run_digest
from koordsched.sweep.run import RunRecord


class PlannedRun(msgspec.Struct, frozen=True):
    """A run of a sweep."""

    source: SweepInput
    configuration: ConfigurationSource
    seed: int
    digest: str

    @property
    def label(self) -> str:
        return f"{self.source.name}, {self.configuration.name}, seed {self.seed}"


def planned_runs(sweep: Sweep, build: str) -> list[PlannedRun]:
    """Return all runs, by input, then by configuration, then by seed, in the order of the sweep's file: that of the rows of all tables."""
    return [
        PlannedRun(source, configuration, seed, run_digest(build, configuration, source, seed))
        for source, configuration, seed in product(sweep.inputs, sweep.configurations, sweep.seeds)
    ]


class ResultFolder:
    """The folder, which is made. OSError: it cannot be."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._runs = self.path / "runs"
        self._runs.mkdir(parents=True, exist_ok=True)

    def read(self, run: PlannedRun) -> RunRecord | None:
        """Return the result of a run; None: it is missing."""
        try:
            return msgspec.json.decode(self._file(run).read_bytes(), type=RunRecord)
        except (FileNotFoundError, *JSON_ERRORS):
            return None

    def write(self, run: PlannedRun, record: RunRecord) -> None:
        """Keep the result of a run. OSError."""
        write_atomically(self._file(run), json_text(record))

    def records(self, runs: list[PlannedRun]) -> Iterator[tuple[PlannedRun, RunRecord]]:
        """Yield the runs that are done, in the order of `runs`."""
        for run in runs:
            record = self.read(run)
            if record is not None:
                yield run, record

    def _file(self, run: PlannedRun) -> Path:
        return self._runs / f"{run.digest}.json"
