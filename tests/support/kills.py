"""kill -9 while a scheduler binds: what the tests of CPUs, devices, gangs and quotas have in common.

The scheduler is started so slowly, with few requests a second, that its pods last for all kills. When it has bound a few pods more it is
stopped, which leaves everything as it is at that moment, then killed, and started again. KOORDSCHED_KILLS says how often; a few times are
enough to see a fault of the kind that shows every time.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from support.controlplane.accounts import service_account
from support.controlplane.credentials import by_token
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.live import Launch, Running, found_equal, until
from support.placements import Placements

KILLS = int(os.environ.get("KOORDSCHED_KILLS", "3"))
MANIFESTS = Path(__file__).parents[2] / "config" / "rbac.yaml"
AT_ONCE = 0.05
"""Seconds within which the process is stopped after the last bind that it is to be seen to make."""


class Killing(NamedTuple):
    """A scheduler to kill, and what sees where its pods go."""

    launch: Launch
    placements: Placements
    random: Random

    def again_and_again(
        self, bindable: int, check: Callable[[], object] = lambda: None, a_few: int = 8, *, worth_it: Callable[[], bool] = lambda: True
    ) -> None:
        """Start and kill. What the process has sent is carried out before `worth_it` and `check` look at the cluster.

        bindable: how many pods find a node. worth_it: whether to kill the process where it stands now; otherwise it binds a few more.
        """
        for _ in range(KILLS):
            running = self.launch.start()
            self._stand_still(running, bindable, a_few)
            while not worth_it():
                running.process.signal(signal.SIGCONT)
                self._stand_still(running, bindable, a_few)
            running.process.kill()
            check()

    def _stand_still(self, running: Running, bindable: int, a_few: int) -> None:
        """Stop the process at some moment after a few more binds, and wait for what it has sent."""
        goal = self.placements.bound + self.random.randrange(1, a_few)
        self._until_bound(goal)
        time.sleep(self.random.uniform(0, AT_ONCE))
        running.process.signal(signal.SIGSTOP)
        assert self.placements.settled() < bindable, "there was nothing left to bind"

    def _until_bound(self, pods: int) -> None:
        until(lambda: self.placements.bound >= pods)

    def start_quick(self, bindable: int) -> Running:
        """Start one that is not slow, and return it when it has bound all pods that find a node."""
        running = self.launch._replace(connection={"qps": 5000, "burst": 5000}).start()
        until(lambda: self.placements.bound == bindable)
        return running

    def end(self, running: Running) -> None:
        end_well(running, self.placements)


def end_well(running: Running, placements: Placements) -> None:
    """See that the scheduler knows what the API server knows, ends as it should, and that no pod was ever on two nodes."""
    until(lambda: found_equal(running.debug("/debug/compare")))
    outcome = running.stop()
    assert placements.strayed() == []
    assert outcome.code == 0
    assert "Traceback" not in outcome.text


@contextmanager
def killing(
    plane: ControlPlane,
    folder: Path,
    profile: Mapping[str, Any],
    *,
    qps: int,
    seed: int,
    flags: tuple[str, ...] = (),
    burst: int | None = None,
) -> Iterator[Killing]:
    """Prepare a scheduler with one profile and this many requests a second, as the service account of config/rbac.yaml.

    burst: how many requests go out at once after a pause; half a second's without it.
    """
    rest: Rest = plane.rest()
    with service_account(rest, MANIFESTS) as token, Placements(plane.kubeconfig()) as placements:
        profiles = [{"schedulerName": "default-scheduler", **profile}]
        connection = {"qps": qps, "burst": burst or qps // 2}
        kubeconfig = plane.kubeconfig(by_token(token))
        launch = Launch(plane, folder, kubeconfig, flags=flags, connection=connection, config={"profiles": profiles})
        yield Killing(launch, placements, Random(seed))
