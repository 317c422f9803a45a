"""/apis/v1: what plugins answer (frameworkext.md §9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from koordsched.framework.interface import Plugin
from koordsched.framework.routes import Answer, Route, RoutesPlugin, refusal
from koordsched.serve.plugin_routes import PluginRoutes
from koordsched.server.http import HttpRequest


class Showing(RoutesPlugin):
    """Shows what it was asked for."""

    def __init__(self, name: str, owner: str = "first") -> None:
        self.name, self.owner = name, owner

    def routes(self) -> Sequence[Route]:
        return (Route("nodes/:nodeName", self._node), Route("nodes/all", lambda _: Answer([])), Route("broken", self._broken))

    def _node(self, named: Mapping[str, str]) -> Answer:
        return refusal(500, "no such node") if named["nodeName"] == "gone" else Answer({"owner": self.owner, **named})

    def _broken(self, _named: Mapping[str, str]) -> Answer:
        raise KeyError("oops")


class Silent(Plugin):
    name = "Silent"


def profile(*plugins: Plugin) -> Any:
    return SimpleNamespace(made={plugin.name: plugin for plugin in plugins})


def ask(target: str, method: str = "GET", *, leading: bool = True) -> tuple[int, Any]:
    routes = PluginRoutes([profile(Showing("Numa"), Silent()), profile(Showing("Numa", "second"), Showing("Device"))])
    response = routes.answer(HttpRequest.of(method, target), leading=leading)
    return response.status, msgspec.json.decode(response.body) if response.content_type == "application/json" else response.body


def test_a_route_is_answered_with_its_named_parts_by_the_first_profile_that_has_the_plugin() -> None:
    assert ask("/apis/v1/plugins/Numa/nodes/n1") == (200, {"owner": "first", "nodeName": "n1"})
    assert ask("/apis/v1/plugins/Device/nodes/n%201") == (200, {"owner": "first", "nodeName": "n 1"})
    assert ask("/apis/v1/plugins/Numa/nodes/gone") == (500, {"message": "no such node"})


def test_a_fixed_part_wins_over_a_named_one() -> None:
    assert ask("/apis/v1/plugins/Numa/nodes/all") == (200, [])


@pytest.mark.parametrize(
    "path", ["Numa", "Numa/", "Numa/nodes", "Numa/nodes/", "Numa/nodes/n1/more", "Silent/nodes/n1", "Unknown/nodes/n1", "numa/nodes/n1"]
)
def test_any_other_path_is_a_404(path: str) -> None:
    assert ask(f"/apis/v1/plugins/{path}") == (404, b"404 page not found\n")


def test_only_get_is_answered() -> None:
    assert ask("/apis/v1/plugins/Numa/nodes/n1", "DELETE")[0] == 404


def test_a_standby_says_that_it_does_not_lead_whatever_is_asked() -> None:
    refused = (503, {"message": "the instance is not leader"})
    assert ask("/apis/v1/plugins/Numa/nodes/n1", leading=False) == ask("/apis/v1/nowhere", leading=False) == refused


def test_the_list_of_services_has_every_path_sorted() -> None:
    paths = [f"/apis/v1/plugins/{plugin}/{path}" for plugin in ("Device", "Numa") for path in ("broken", "nodes/:nodeName", "nodes/all")]
    assert ask("/apis/v1/__services__") == (200, {"GET": ["/apis/v1/__services__", *paths]})


def test_a_route_with_a_bug_is_a_500_that_says_where_to_look() -> None:
    assert ask("/apis/v1/plugins/Numa/broken") == (500, {"message": "internal error, see the scheduler's log: KeyError('oops')"})
