"""The workers of a sweep: the processes of a Dask cluster, its own one on this machine or one that exists.

A worker does one run at a time. One that dies is replaced, or its runs go to others: Dask keeps what was asked for until it is answered. An
input goes to a worker once, as a task of its own, so that it is sent again where the worker that had it has died.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from koordsched.sweep.identity import input_digest
from koordsched.sweep.run import RunFailure, RunOutcome, execute

if TYPE_CHECKING:
    from distributed import Client, Future

    from koordsched.sweep.folder import PlannedRun
    from koordsched.sweep.format import SweepInput

CONNECT_SECONDS = 30


class WorkersError(Exception):
    """There are no workers; the text says why."""


@contextmanager
def local_workers(count: int | None, runs: int) -> Iterator[Client]:
    """Start so many worker processes, one per CPU without a number, no more than there are runs, and end them.

    What they say to each other is encrypted and signed by keys of this process: others on this machine cannot have them run code.
    """
    import dask  # noqa: PLC0415  # an optional package, slow to import
    from dask.system import CPU_COUNT  # noqa: PLC0415
    from distributed import Client, LocalCluster  # noqa: PLC0415

    no_pages: dict[str, list[str]] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
    with dask.config.set(no_pages):
        cluster = LocalCluster(  # type: ignore[no-untyped-call]  # Dask is typed in part
            n_workers=min(count or CPU_COUNT, runs),
            threads_per_worker=1,
            memory_limit=None,  # a worker that is near its limit would wait for memory that Python does not give back
            dashboard_address="127.0.0.1:0",  # any free port: on a fixed one two sweeps would meet
            silence_logs=logging.ERROR,
            security=True,
            protocol="tls://",
        )
        with cluster, Client(cluster) as client:  # type: ignore[no-untyped-call]
            yield client


@contextmanager
def existing_workers(address: str) -> Iterator[Client]:
    """Connect to a Dask scheduler; its certificates are those of Dask's own configuration. WorkersError."""
    from distributed import Client  # noqa: PLC0415  # an optional package, slow to import

    try:
        client = Client(address, timeout=CONNECT_SECONDS)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise WorkersError(f"--scheduler {address}: cannot connect: {error}") from None
    with client:
        yield client


def run_all(client: Client, runs: Sequence[PlannedRun], build: str) -> Iterator[tuple[PlannedRun, RunOutcome]]:
    """Have all runs done, and yield each as it ends."""
    from distributed import as_completed  # noqa: PLC0415  # an optional package, slow to import

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")  # once per input, which is what it takes
        inputs = {run.source.name: client.submit(_input, run.source, key=f"input-{input_digest(run.source)}") for run in runs}
        futures = {}
        for run in runs:
            future = client.submit(execute, run.configuration, inputs[run.source.name], run.seed, build, key=f"run-{run.digest}")
            futures[future] = run
    for future in as_completed(list(futures)):  # type: ignore[no-untyped-call]
        run = futures.pop(future)
        yield run, _outcome(future)
        future.release()


def _input(source: SweepInput) -> SweepInput:
    return source


def _outcome(future: Future[Any]) -> RunOutcome:
    """Return what a run returned. What it raised is a bug, or the end of every worker that tried it; either way it concerns this run."""
    if future.status == "finished":
        outcome: RunOutcome = future.result()
        return outcome
    error = future.exception()  # type: ignore[no-untyped-call]
    return RunFailure(failure=f"{type(error).__name__}: {error}")
