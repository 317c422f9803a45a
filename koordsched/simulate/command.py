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
from koordsched.manifests.documents import InputError
from koordsched.plugins import installed_catalogue
from koordsched.simulate.node_changes import AddedNodes, add_nodes, drain
from koordsched.simulate.simulation import Progress, Simulation, SimulationOutcome
from koordsched.simulate.workload import Workload, all_at_once
from koordsched.terminals import has_colours, is_terminal


class SimulateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for. Either `inputs` (files) or `kubeconfig`, or both, or `trace` openb with its two files; or `trace` csv
    or parquet with a table of pods, and nodes in a table or in the input.

    report: a file for the HTML page. drained: names of nodes. compare: a second configuration. node_options: flags that plugins add, with
    what was read of them. context: of the kubeconfig. namespaces: whose pods are submitted, () for all. shown_pods: by key of a plugin's
    report.
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
    report: str | None = None
    limit_pods: int | None = None
    show_pending: int = 10
    added_nodes: tuple[AddedNodes, ...] = ()
    drained: tuple[str, ...] = ()
    node_options: tuple[tuple[NodeOption, Any], ...] = ()
    kubeconfig: str | None = None
    context: str | None = None
    namespaces: tuple[str, ...] = ()
    shown_pods: Mapping[str, int] = {}


OPENB = "openb"
SUPPRESSED = frozenset({"Scheduled", "FailedScheduling"})  # placements and conditions say the same


def run_simulate(options: SimulateOptions, out: TextIO, err: TextIO) -> int:
    """Simulate and print the outcome to `out`; everything else goes to `err`."""
    with _rare_collections():
        return _run(options, out, err)


def _run(options: SimulateOptions, out: TextIO, err: TextIO) -> int:
    paths = [options.config] if options.compare is None else [options.config, options.compare]
    runs: list[tuple[Workload, SimulationOutcome]] = []
    try:
        if options.report is not None:
            from koordsched.simulate.report.page import require_charts  # noqa: PLC0415  # only a page needs it

            require_charts()
        configs = [load_config(path, Environment(installed=installed_catalogue)) if path else default_config() for path in paths]
        workload_for = read_input(options, configs, err)
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
    if options.report is not None:
        try:
            _write_report(options, runs)
        except InputError as mistake:
            print(mistake, file=err)
            return 1
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


def read_input(
    options: SimulateOptions, configs: Sequence[SchedulerConfiguration], err: TextIO
) -> Callable[[SchedulerConfiguration], Workload]:
    """Read the input once, and return what makes the workload of it for one of the configurations. Both raise InputError."""
    if options.trace == OPENB:
        from koordsched.simulate.openb import inflated, load_openb  # noqa: PLC0415  # one of three readers

        def of_trace(profiles: list[str]) -> Workload:
            assert options.nodes is not None
            assert options.pods is not None
            workload = load_openb(options.nodes, options.pods, profiles[0])
            if options.inflate is not None:
                workload.arrivals = inflated(workload, options.inflate, options.seed)
            return workload

        of_profiles: Callable[[list[str]], Workload] = of_trace
    else:
        from koordsched.simulate.live import InputSource, read_source  # noqa: PLC0415  # what openb does not need
        from koordsched.simulate.manifests import workload_of  # noqa: PLC0415

        found = read_source(InputSource(options.inputs, options.kubeconfig, options.context, options.namespaces), configs, err)
        of_profiles = partial(workload_of, found.documents, notes=found.notes)
        if options.trace is not None:
            of_profiles = _with_tables(options, of_profiles)

    def made(config: SchedulerConfiguration) -> Workload:
        workload = of_profiles([profile.scheduler_name for profile in config.profiles])
        _change(options, workload)
        return workload

    return made


def _with_tables(options: SimulateOptions, of_profiles: Callable[[list[str]], Workload]) -> Callable[[list[str]], Workload]:
    from koordsched.simulate.table_trace import add_tables  # noqa: PLC0415  # only a table needs it

    def of_tables(profiles: list[str]) -> Workload:
        assert options.trace is not None
        assert options.pods is not None
        workload = of_profiles(profiles)
        add_tables(workload, options.trace, options.nodes, options.pods, profiles[0])
        return workload

    return of_tables


def _change(options: SimulateOptions, workload: Workload) -> None:
    """Change a workload as the options say. InputError."""
    if options.namespaces:
        workload.arrivals = [each for each in workload.arrivals if each.manifest.ref.namespace in options.namespaces]
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
        out.write(outcome.result.json(outcome.usage().series if outcome.usage else None).decode())
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


def _write_report(options: SimulateOptions, runs: Sequence[tuple[Workload, SimulationOutcome]]) -> None:
    """Write the page of the run or of the two. InputError: it cannot be written."""
    from koordsched.simulate.comparison import SHIPPED, Run, compare  # noqa: PLC0415  # a table needs none of these
    from koordsched.simulate.report.comparison_page import ComparisonPage, comparison_page  # noqa: PLC0415
    from koordsched.simulate.report.page import write_page  # noqa: PLC0415
    from koordsched.simulate.report.run_page import RunPage, run_page  # noqa: PLC0415

    assert options.report is not None
    source = ", ".join([*options.inputs, *(os.path.basename(file) for file in (options.nodes, options.pods) if file)])
    outcomes = [outcome for _, outcome in runs]
    records = [outcome.usage() for outcome in outcomes if outcome.usage]
    if options.compare is None:
        page = run_page(RunPage(options.config or SHIPPED, source, outcomes[0], records[0]))
    else:
        found = compare(Run(options.config or SHIPPED, outcomes[0]), Run(options.compare, outcomes[1]))
        page = comparison_page(ComparisonPage(source, found, *records))
    write_page(options.report, page)


def print_sections(made: Sequence[Section], out: TextIO) -> None:
    """Print tables, on a terminal in colour."""
    if has_colours(out):
        from koordsched.simulate.terminal import show  # noqa: PLC0415  # rich is slow to import

        show(made, out)
    else:
        from koordsched.simulate.summary import render  # noqa: PLC0415  # JSON needs no table

        out.write(render(made))
