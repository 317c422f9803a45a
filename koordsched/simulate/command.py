"""The `simulate` command: options in, exit code out. 0: it ran, whatever became of the pods; 1: an input cannot be read."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TextIO

import msgspec

from koordsched.config.errors import ConfigError
from koordsched.config.flag_table import Flags
from koordsched.config.loading import Environment, default_config, load_config
from koordsched.config.types import SchedulerConfiguration
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions, run_embedded
from koordsched.framework.handle import SettingsError
from koordsched.framework.tooling import NodeOption, Section
from koordsched.manifests.documents import InputError, expand
from koordsched.plugins import installed_catalogue
from koordsched.simulate.node_changes import AddedNodes, add_nodes, drain
from koordsched.simulate.simulation import Progress, Simulation, SimulationOutcome
from koordsched.simulate.workload import Workload, all_at_once


class SimulateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for. Either `inputs` (files) or `trace` with its two files.

    drained: names of nodes. compare: a second configuration. node_options: flags that plugins add, with what was read of them. shown_pods:
    by key of a plugin's report.
    """

    inputs: tuple[str, ...] = ()
    trace: str | None = None
    nodes: str | None = None
    pods: str | None = None
    order: str | None = None
    inflate: int | None = None
    seed: int = 0
    config: str | None = None
    compare: str | None = None
    show_differences: int = 10
    output: str = "table"
    limit_pods: int | None = None
    show_pending: int = 10
    added_nodes: tuple[AddedNodes, ...] = ()
    drained: tuple[str, ...] = ()
    node_options: tuple[tuple[NodeOption, Any], ...] = ()
    shown_pods: Mapping[str, int] = {}


SUPPRESSED = frozenset({"Scheduled", "FailedScheduling"})  # placements and conditions say the same


def run_simulate(options: SimulateOptions, out: TextIO, err: TextIO) -> int:
    """Simulate and print the outcome to `out`; everything else goes to `err`."""
    with _rare_collections():
        return _run(options, out, err)


def _run(options: SimulateOptions, out: TextIO, err: TextIO) -> int:
    paths = [options.config] if options.compare is None else [options.config, options.compare]
    runs: list[tuple[Workload, SimulationOutcome]] = []
    try:
        configs = [load_config(path, Environment(installed=installed_catalogue)) if path else default_config() for path in paths]
        workload_for = read_input(options)
        for config in configs:
            workload = workload_for(config)
            runs.append((workload, simulate(options, config, workload, err)))
    except ConfigError as mistake:
        print(*mistake.errors, sep="\n", file=err)
        return 1
    except (InputError, SettingsError) as mistake:
        print(mistake, file=err)
        return 1
    lines = [line for workload, outcome in runs for line in (*workload.notes, *(rejection.line for rejection in outcome.rejected))]
    for line in dict.fromkeys(lines) if len(runs) > 1 else lines:  # both runs say the same of one input
        print(line, file=err)
    if options.compare is None:
        _print(options, *runs[0], out)
    else:
        _print_comparison(options, runs, out)
    return 0


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let the garbage collector look seldom: a simulation makes many objects that stay and few cycles.

    What it made is not walked at its end either: the process is about to end. openb's 8,152 pods at once: 20 % less CPU in all.
    """
    before = gc.get_threshold()
    gc.set_threshold(1_000_000, 20, 100)
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*before)


def read_input(options: SimulateOptions) -> Callable[[SchedulerConfiguration], Workload]:
    """Read the input once, and return what makes the workload of it for a configuration. Both raise InputError."""
    if options.trace:
        from koordsched.simulate.openb import inflated, load_openb  # noqa: PLC0415  # one of two readers

        def of_trace(profiles: list[str]) -> Workload:
            assert options.nodes is not None
            assert options.pods is not None
            workload = load_openb(options.nodes, options.pods, profiles[0])
            if options.inflate is not None:
                workload.arrivals = inflated(workload, options.inflate, options.seed)
            return workload

        of_profiles: Callable[[list[str]], Workload] = of_trace
    else:
        from koordsched.simulate.manifests import read_files, workload_of  # noqa: PLC0415  # the other reader

        of_profiles = partial(workload_of, read_files(expand(list(options.inputs))))

    def made(config: SchedulerConfiguration) -> Workload:
        workload = of_profiles([profile.scheduler_name for profile in config.profiles])
        _change(options, workload)
        return workload

    return made


def _change(options: SimulateOptions, workload: Workload) -> None:
    """Change a workload as the options say. InputError."""
    for added in options.added_nodes:
        add_nodes(workload, added)
    if options.drained:
        drain(workload, options.drained)
    for option, value in options.node_options:
        workload.give_nodes(option, value)
    if options.order is not None:
        workload.arrivals = all_at_once(workload.arrivals, options.order, options.seed)
    if options.limit_pods is not None:
        del workload.arrivals[options.limit_pods :]


def simulate(options: SimulateOptions, config: SchedulerConfiguration, workload: Workload, err: TextIO) -> SimulationOutcome:
    """Run the simulation, with a progress bar where `err` is a terminal."""
    embedded = EmbeddedOptions(
        config=config,
        flags=Flags(enable_network_topology_manager=True),  # as Koordinator's chart has it
        seed=options.seed,
        lasting=workload.departs,
        suppressed=SUPPRESSED,
        measured=False,
        epoch=workload.epoch,
    )
    with _progress(err) as progress:

        async def script(cluster: EmbeddedCluster) -> SimulationOutcome:
            workload.notes += cluster.notes()
            return await Simulation(workload, cluster, progress).run()

        return run_embedded(embedded, script)


@contextmanager
def _progress(err: TextIO) -> Iterator[Progress | None]:
    if not is_terminal(err):
        yield None
        return
    from koordsched.simulate.terminal import ProgressBar  # noqa: PLC0415  # rich is slow to import

    with ProgressBar(err) as bar:
        yield bar.update


def _print(options: SimulateOptions, workload: Workload, outcome: SimulationOutcome, out: TextIO) -> None:
    if options.output == "json":
        out.write(outcome.result.json().decode())
        return
    from koordsched.simulate.summary import ReportOptions, sections  # noqa: PLC0415  # JSON needs no table

    report = ReportOptions(peak=workload.departs, shown=options.show_pending, shown_pods=options.shown_pods)
    print_sections(sections(outcome.result, report, outcome.reports), out)


def _print_comparison(options: SimulateOptions, runs: Sequence[tuple[Workload, SimulationOutcome]], out: TextIO) -> None:
    from koordsched.simulate.comparison import SHIPPED, Run, compare  # noqa: PLC0415  # one run needs no comparison

    (workload, base), (_, other) = runs
    found = compare(Run(options.config or SHIPPED, base), Run(options.compare or SHIPPED, other))
    if options.output == "json":
        out.write(found.json().decode())
        return
    from koordsched.simulate.comparison_table import ComparisonOptions, comparison_sections  # noqa: PLC0415  # JSON needs no table

    listed = ComparisonOptions(peak=workload.departs, differences=options.show_differences, pending=options.show_pending)
    print_sections(comparison_sections(found, listed), out)


def print_sections(made: Sequence[Section], out: TextIO) -> None:
    """Print tables, on a terminal in colour."""
    if is_terminal(out) and not os.environ.get("NO_COLOR"):
        from koordsched.simulate.terminal import show  # noqa: PLC0415  # rich is slow to import

        show(made, out)
    else:
        from koordsched.simulate.summary import render  # noqa: PLC0415  # JSON needs no table

        out.write(render(made))


def is_terminal(stream: TextIO) -> bool:
    """Return whether tables and progress may be drawn there."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"
