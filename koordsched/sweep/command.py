"""The `sweep` command: options in, exit code out. 0: every run has a result; 1: a file cannot be used, or a run has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO

import msgspec

from koordsched.manifests.documents import InputError
from koordsched.simulate.command import print_sections
from koordsched.sweep.folder import PlannedRun, ResultFolder, planned_runs
from koordsched.sweep.format import ReadFlags, SweepError, read_sweep
from koordsched.sweep.identity import build_digest
from koordsched.sweep.results import json_of, sections_of, write_parquet
from koordsched.sweep.run import RunFailure
from koordsched.sweep.statistics import Done, statistics_of
from koordsched.sweep.workers import WorkersError, existing_workers, local_workers, run_all
from koordsched.terminals import is_terminal

if TYPE_CHECKING:
    from distributed import Client

NEEDED = ("dask", "distributed", "pyarrow", "scipy")
SHOWN_FAILURES, SHOWN_NOTES = 10, 10

Report = Callable[[int, int], None]
"""Called with how many runs of how many are done."""


class SweepOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for. workers: how many processes, None one per CPU; scheduler: the address of a Dask scheduler instead.

    report: a file for the HTML page.
    """

    sweep: str
    results: str
    workers: int | None = None
    scheduler: str | None = None
    output: str = "table"
    report: str | None = None


def run_sweep(options: SweepOptions, read_flags: ReadFlags, out: TextIO, err: TextIO) -> int:
    """Do the runs that are missing, write the results and print them to `out`; everything else goes to `err`."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        print(f"koord-scheduler sweep needs {', '.join(missing)}: pip install 'koordsched[sweep]'", file=err)
        return 1
    try:
        if options.report is not None:
            from koordsched.simulate.report.page import require_charts  # noqa: PLC0415  # only a page needs it

            require_charts()
        sweep = read_sweep(options.sweep, read_flags)
        folder = ResultFolder(options.results)
        build = build_digest()
        runs = planned_runs(sweep, build)
        failures = _do_missing(options, folder, runs, build, err)
        done = list(folder.records(runs))
        _print_notes([note for _, record in done for note in record.notes], err)
        if done:
            write_parquet(folder.path, done)
            if options.report is not None:
                _write_report(options.report, options.sweep, done)
            _print(options, done, out)
    except SweepError as mistake:
        print(*mistake.errors, sep="\n", file=err)
        return 1
    except (InputError, WorkersError) as mistake:
        print(mistake, file=err)
        return 1
    except OSError as error:
        print(f"--results {options.results}: {error}", file=err)
        return 1
    for failure in failures[:SHOWN_FAILURES]:
        print(failure, file=err)
    if failures:
        print(f"{len(failures)} of {len(runs)} runs have no result, and are not in the tables", file=err)
    return 1 if failures else 0


def _do_missing(options: SweepOptions, folder: ResultFolder, runs: Sequence[PlannedRun], build: str, err: TextIO) -> list[str]:
    """Do the runs without a result, and return a line for each that still has none."""
    missing = {run.digest: run for run in runs if folder.read(run) is None}
    ready = len({run.digest for run in runs}) - len(missing)
    if not missing:
        return []
    failures = []
    ended = 0
    try:
        with _workers(options, len(missing)) as client, _progress(err) as report:
            report(ready, ready + len(missing))
            for run, outcome in run_all(client, list(missing.values()), build):
                if isinstance(outcome, RunFailure):
                    failures.append(f"{run.label}: {outcome.failure}")
                else:
                    folder.write(run, outcome)
                ended += 1
                report(ready + ended, ready + len(missing))
    except KeyboardInterrupt:
        print(f"interrupted: {ready + ended} of {ready + len(missing)} runs are done; the same command does the rest", file=err)
        raise
    return failures


def _workers(options: SweepOptions, runs: int) -> AbstractContextManager[Client]:
    return existing_workers(options.scheduler) if options.scheduler is not None else local_workers(options.workers, runs)


@contextmanager
def _progress(err: TextIO) -> Iterator[Report]:
    if not is_terminal(err):
        yield lambda _done, _total: None
        return
    from koordsched.simulate.terminal import ProgressBar  # noqa: PLC0415  # rich is slow to import

    with ProgressBar(err, "runs") as bar:
        yield bar.update


def _print_notes(notes: Sequence[str], err: TextIO) -> None:
    """Print what concerns the inputs; most runs of an input have the same notes."""
    distinct = list(dict.fromkeys(notes))
    for note in distinct[:SHOWN_NOTES]:
        print(note, file=err)
    if len(distinct) > SHOWN_NOTES:
        print(f"{len(distinct) - SHOWN_NOTES} more notes on the inputs, in the files of the runs", file=err)


def _write_report(file: str, sweep: str, done: Done) -> None:
    """Write the page of all runs that are done. InputError: it cannot be written."""
    from koordsched.simulate.report.page import Number, write_page  # noqa: PLC0415  # a table needs none of these
    from koordsched.simulate.report.sweep_page import Estimate, sweep_page  # noqa: PLC0415

    estimates = []
    for each in statistics_of(done):
        mean, low, high = each.value.mean, each.value.low, each.value.high
        bounds = (mean if low is None else low, mean if high is None else high)
        estimates.append(Estimate(each.figure, each.configuration, each.input, mean, *bounds, is_share=each.is_share))
    numbers = [
        Number("runs", str(len(done))),
        Number("configurations", str(len({run.configuration.name for run, _ in done}))),
        Number("inputs", str(len({run.source.name for run, _ in done}))),
        Number("seeds", str(len({run.seed for run, _ in done}))),
    ]
    write_page(file, sweep_page(f"The runs of {sweep}.", numbers, estimates, sections_of(done)))


def _print(options: SweepOptions, done: Done, out: TextIO) -> None:
    if options.output == "json":
        out.write(json_of(done).decode())
    else:
        print_sections(sections_of(done), out)
