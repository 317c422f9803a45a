"""kill -9 at a request: a scheduler whose requests go through the proxy is killed when one of a certain kind comes by.

Before the request: the API server never sees it. After it: it is carried out, and the scheduler does not learn that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from support.controlplane.accounts import service_account
from support.controlplane.credentials import by_token
from support.controlplane.plane import ControlPlane
from support.kills import MANIFESTS, end_well
from support.live import Launch, Running
from support.placements import Placements
from support.proxy import Asked, Fault, Proxy, Weather
from support.served import TIMEOUT


class Step(NamedTuple):
    """The request that is the process's last. before: how many such requests pass first; 0 where it is not carried out."""

    name: str
    verb: str
    resource: str
    carried_out: bool
    before: int = 0


class Fatal(Weather):
    """Lets all requests pass but for the fatal one. met: set when that has come by."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.met = threading.Event()
        self._step: Step | None = None
        self._passing = 0

    def arm(self, step: Step) -> None:
        self.met.clear()
        self.black_holes = set() if step.carried_out else {step.verb}
        self._step, self._passing = step, step.before

    def fault_of(self, asked: Asked) -> Fault | None:
        step = self._step
        if step is None or asked != (step.verb, step.resource):
            return None
        if self._passing:
            self._passing -= 1
            return None
        self._step = None
        self.met.set()
        return Fault.LOST_ANSWER if step.carried_out else Fault.HANG


class Deaths(NamedTuple):
    """A scheduler to kill."""

    launch: Launch
    fatal: Fatal
    placements: Placements

    def start(self) -> Running:
        return self.launch.start()

    def die_at(self, step: Step, running: Running, cause: Callable[[], object]) -> None:
        """Kill the process at the step, which follows from what `cause` does."""
        self.fatal.arm(step)
        cause()
        assert self.fatal.met.wait(TIMEOUT), f"no request: {step.verb} {step.resource}"
        running.process.kill()
        self.placements.settled()

    def end(self, running: Running) -> None:
        end_well(running, self.placements)


@contextmanager
def dying(plane: ControlPlane, folder: Path, profile: Mapping[str, Any]) -> Iterator[Deaths]:
    """Prepare a scheduler with one profile whose requests go through a proxy, as the service account of config/rbac.yaml."""
    fatal = Fatal()
    with (
        service_account(plane.rest(), MANIFESTS) as token,
        Placements(plane.kubeconfig()) as placements,
        Proxy(plane, fatal, folder) as proxy,
    ):
        profiles = [{"schedulerName": "default-scheduler", **profile}]
        launch = Launch(plane, folder, proxy.kubeconfig(by_token(token)), config={"profiles": profiles})
        yield Deaths(launch, fatal, placements)
