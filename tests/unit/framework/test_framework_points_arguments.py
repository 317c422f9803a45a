"""Every plugin at every point gets the cycle's state, the pod and the node, timed or not."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import pod
from support.fakes import Fake, profile_config, registry_of
from support.plugins import PluginBench

from koordsched.framework.cycle_state import CycleState
from koordsched.framework.interface import BindPlugin, PermitPlugin, Plugin, PostBindPlugin, PreBindPlugin, ReservePlugin
from koordsched.framework.profile import Profile
from koordsched.framework.status import Status

POD = pod("p").info()
POINTS = ["reserve", "permit", "preBind", "bind", "postBind"]


class Noting(Fake, ReservePlugin, PermitPlugin, PreBindPlugin, BindPlugin, PostBindPlugin):
    """Writes down what it is given."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.given: list[tuple[str, Any, Any, Any]] = []

    def reserve(self, *args: Any) -> Status | None:
        self.given.append(("reserve", *args))
        return None

    def unreserve(self, *args: Any) -> None:
        self.given.append(("unreserve", *args))

    def permit(self, *args: Any) -> tuple[Status | None, float]:
        self.given.append(("permit", *args))
        return None, 0.0

    def pre_bind_pre_flight(self, *args: Any) -> Status | None:
        self.given.append(("pre-flight", *args))
        return None

    async def pre_bind(self, *args: Any) -> Status | None:
        self.given.append(("pre_bind", *args))
        return None

    async def bind(self, *args: Any) -> Status | None:
        self.given.append(("bind", *args))
        return None

    def post_bind(self, *args: Any) -> None:
        self.given.append(("post_bind", *args))


@pytest.mark.parametrize("sampled", [False, True])
async def test_state_pod_and_node_come_to_each_point(*, sampled: bool) -> None:
    plugin = Noting("N")
    points: dict[str, list[Plugin]] = {point: [plugin] for point in POINTS}
    made = Profile(profile_config(**points), registry_of(plugin), PluginBench())
    state = CycleState()
    state.sampled = sampled
    assert made.run_reserve(state, POD, "n1") is None
    assert made.run_permit(state, POD, "n1") == (None, {})
    work, status = made.pre_bind_work(state, POD, "n1")
    assert status is None
    assert await made.run_pre_bind(work, state, POD, "n1") is None
    assert await made.run_bind(state, POD, "n1") is None
    made.run_post_bind(state, POD, "n1")
    made.run_unreserve(state, POD, "n1")
    names = ["reserve", "permit", "pre-flight", "pre_bind", "bind", "post_bind", "unreserve"]
    assert plugin.given == [(name, state, POD, "n1") for name in names]
