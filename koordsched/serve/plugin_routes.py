"""/apis/v1: what plugins and the scheduler itself answer, as JSON (frameworkext.md §9), and `__services__`, the list of all paths.

Only the scheduler that leads answers: what a standby holds of allocations is not what is being decided. Paths are matched part by part;
where a fixed part and a `:name` both match, the fixed one wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from koordsched.framework.routes import Answer, Route, RoutesPlugin
from koordsched.log import get_logger
from koordsched.server.http import APIS_PATH, JSON, NOT_FOUND, Response

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koordsched.framework.profile import Profile
    from koordsched.server.http import HttpRequest

log = get_logger(__name__)

PLUGINS_PATH = f"{APIS_PATH}plugins/"
SERVICES_PATH = f"{APIS_PATH}__services__"
NOT_LEADER = Response(503, JSON, msgspec.json.encode({"message": "the instance is not leader"}))
SERVER_ERROR = 500
NO_SERVICES: Mapping[str, Sequence[str]] = {}


class _Path(NamedTuple):
    parts: tuple[str, ...]
    route: Route

    def match(self, parts: tuple[str, ...]) -> dict[str, str] | None:
        """Return the values of the named parts; None when the path is another one."""
        if len(parts) != len(self.parts):
            return None
        named: dict[str, str] = {}
        for own, given in zip(self.parts, parts, strict=True):
            if own.startswith(":") and given:
                named[own[1:]] = given
            elif own != given:
                return None
        return named


class PluginRoutes:
    """The routes of one scheduler: its own and those of its plugins."""

    def __init__(self, profiles: Iterable[Profile], own: Iterable[Route] = (), others: Mapping[str, Sequence[str]] = NO_SERVICES) -> None:
        """own: paths below /apis/v1/. others: by method, what is answered elsewhere and listed here."""
        plugins: dict[str, RoutesPlugin] = {}
        for profile in profiles:
            for plugin in profile.made.values():
                if isinstance(plugin, RoutesPlugin):
                    plugins.setdefault(plugin.name, plugin)
        routes = {f"{PLUGINS_PATH}{name}/{route.path}": route for name, plugin in plugins.items() for route in plugin.routes()}
        routes |= {f"{APIS_PATH}{route.path}": route for route in own}
        self._services = {**others, "GET": sorted({SERVICES_PATH, *routes, *others.get("GET", ())})}
        by_specificity = sorted(routes.items(), key=lambda item: (item[0].count(":"), item[0]))
        self._paths = [_Path(_parts(path), route) for path, route in by_specificity]

    def answer(self, request: HttpRequest, *, leading: bool) -> Response:
        """Answer a request for a path below /apis/v1/."""
        if not leading:
            return NOT_LEADER
        if request.method != "GET":
            return NOT_FOUND  # as Koordinator's router has it
        if request.path == SERVICES_PATH:
            return _json(Answer(self._services))
        parts = _parts(request.path)
        for path in self._paths:
            named = path.match(parts)
            if named is not None:
                return _answered(path.route, {name: values[-1] for name, values in request.query.items()} | named)
        return NOT_FOUND


def _answered(route: Route, named: Mapping[str, str]) -> Response:
    try:
        return _json(route.answer(named))
    except Exception as bug:
        log.exception("a plugin's route failed", path=route.path, named=dict(named))
        return _json(Answer({"message": f"internal error, see the scheduler's log: {bug!r}"}, SERVER_ERROR))


def _json(answer: Answer) -> Response:
    return Response(answer.status, JSON, msgspec.json.encode(answer.body))


def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(APIS_PATH).split("/"))
