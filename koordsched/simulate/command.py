"""The `simulate` command: options in, exit code out. 0: it ran, whatever became of the pods; 1: an input cannot be read."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

import msgspec

from koordsched.config.errors import ConfigError
from koordsched.config.flag_table import Flags
from koordsched.config.loading import Environment, default_config, load_config
from koordsched.config.types import SchedulerConfiguration
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions, run_embedded
from koordsched.framework.handle import SettingsError
from koordsched.framework.tooling import NodeOption
from koordsched.manifests.documents import InputError, expand
from koordsched.plugins import installed_catalogue
from koordsched.simulate.node_changes import AddedNodes, add_nodes, drain
from koordsched.simulate.simulation import Progress, Simulation, SimulationOutcome
from koordsched.simulate.workload import Workload, all_at_once


class SimulateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for. Either `inputs` (files) or `trace` with its two files.

    drained: names of nodes. node_options: flags that plugins add, with what was read of them. shown_pods: by key of a plugin's report.
    """

    inputs: tuple[str, ...] = ()
    trace: str | None = None
    nodes: str | None = None
    pods: str | None = None
    order: str | None = None
    inflate: int | None = None
    seed: int = 0
    config: str | None = None
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
    try:
        config = load_config(options.config, Environment(installed=installed_catalogue)) if options.config else default_config()
        workload = load_workload(options, config)
    except ConfigError as mistake:
        print(*mistake.errors, sep="\n", file=err)
        return 1
    except InputError as mistake:
        print(mistake, file=err)
        return 1
    try:
        outcome = simulate(options, config, workload, err)
    except SettingsError as mistake:
        print(mistake, file=err)
        return 1
    for line in (*workload.notes, *(rejection.line for rejection in outcome.rejected)):
        print(line, file=err)
    _print(options, outcome, workload, out)
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


def load_workload(options: SimulateOptions, config: SchedulerConfiguration) -> Workload:
    """Read the input. InputError."""
    profiles = [profile.scheduler_name for profile in config.profiles]
    if options.trace:
        from koordsched.simulate.openb import inflated, load_openb  # noqa: PLC0415  # one of two readers

        assert options.nodes is not None
        assert options.pods is not None
        workload = load_openb(options.nodes, options.pods, profiles[0])
        if options.inflate is not None:
            workload.arrivals = inflated(workload, options.inflate, options.seed)
    else:
        from koordsched.simulate.manifests import load_manifests  # noqa: PLC0415  # the other reader

        workload = load_manifests(expand(list(options.inputs)), profiles)
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
    return workload


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
    if not _is_terminal(err):
        yield None
        return
    from koordsched.simulate.terminal import ProgressBar  # noqa: PLC0415  # rich is slow to import

    with ProgressBar(err) as bar:
        yield bar.update


def _print(options: SimulateOptions, outcome: SimulationOutcome, workload: Workload, out: TextIO) -> None:
    if options.output == "json":
        out.write(outcome.result.json().decode())
        return
    from koordsched.simulate.summary import ReportOptions, render, sections  # noqa: PLC0415  # JSON needs no table

    report = ReportOptions(peak=workload.departs, shown=options.show_pending, shown_pods=options.shown_pods)
    made = sections(outcome.result, report, outcome.reports)
    if _is_terminal(out) and not os.environ.get("NO_COLOR"):
        from koordsched.simulate.terminal import show  # noqa: PLC0415  # rich is slow to import

        show(made, out)
    else:
        out.write(render(made))


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"
