"""One run of a sweep: what a worker is given, what it does with it, and what it returns.

Nothing here knows Dask: a run is a function of its arguments. It returns its failure as a value, so that the other runs go on.
"""

from __future__ import annotations

import gc
import io
import os
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from koordsched.config.errors import ConfigError
from koordsched.config.loading import Environment, load_config_text
from koordsched.framework.handle import SettingsError
from koordsched.framework.tooling import Figure
from koordsched.log import be_quiet
from koordsched.manifests.documents import InputError
from koordsched.plugins import installed_catalogue
from koordsched.simulate.command import SimulateOptions, read_input, simulate
from koordsched.simulate.comparison_table import figures
from koordsched.simulate.result import Output
from koordsched.sweep.format import ConfigurationSource, SweepInput, paths_of, with_paths
from koordsched.sweep.identity import build_digest

REAL_TIME = ("seconds", "decisionMeanMicros")
"""Numbers of a summary that depend on the machine."""


class RunRecord(Output):
    """What a run had as its result. figures: those that are compared; summary: all numbers of docs/simulate.md but for real times; notes:
    what else concerns the input."""

    figures: list[Figure]
    summary: dict[str, Any]
    notes: list[str]


class RunFailure(Output):
    """Why a run has no result, in a line or several."""

    failure: str


RunOutcome = RunRecord | RunFailure


def execute(configuration: ConfigurationSource, source: SweepInput, seed: int, build: str) -> RunOutcome:
    """Simulate an input under a configuration with a seed. build: that of the process that asks for it."""
    if build != build_digest():
        return RunFailure(failure="the worker has another version of koordsched, or of a plugin, than this command")
    be_quiet()
    with TemporaryDirectory(prefix="koordsched-") as folder:
        names = _written(source, folder)
        options = replace(with_paths(source.options, list(names)), seed=seed)
        try:
            record = _without_collections(lambda: _simulated(configuration, options))
        except ConfigError as mistake:
            return RunFailure(failure="\n".join(map(str, mistake.errors)))
        except (InputError, SettingsError) as mistake:
            return RunFailure(failure=_with_names(str(mistake), names))
        return replace(record, notes=[_with_names(note, names) for note in record.notes])


def _simulated(configuration: ConfigurationSource, options: SimulateOptions) -> RunRecord:
    config = load_config_text(configuration.text, Environment(installed=installed_catalogue), configuration.file)
    workload = read_input(options, [config], io.StringIO())(config)
    outcome = simulate(options, config, workload, io.StringIO())
    summary = outcome.result.summary.body()
    return RunRecord(
        figures=list(figures(outcome)),
        summary={key: value for key, value in summary.items() if key not in REAL_TIME},
        notes=[*workload.notes, *(rejection.line for rejection in outcome.rejected)],
    )


def _without_collections(run: Callable[[], RunRecord]) -> RunRecord:
    """Let the garbage collector look after the run and not during it: what a simulation makes stays until its end."""
    gc.disable()
    try:
        return run()
    finally:
        gc.enable()
        gc.collect()


def _written(source: SweepInput, folder: str) -> dict[str, str]:
    """Write the files of an input, and return the name of each in messages by its path here."""
    names = {}
    for number, (name, content) in enumerate(zip(paths_of(source.options), source.contents, strict=True)):
        path = os.path.join(folder, f"{number}-{os.path.basename(name)}")
        with open(path, "wb") as file:
            file.write(content)
        names[path] = name
    return names


def _with_names(text: str, names: dict[str, str]) -> str:
    for path, name in names.items():
        text = text.replace(path, name)
    return text
