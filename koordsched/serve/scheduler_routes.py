"""The scheduler's own routes below /apis/v1/: nodes as it believes them to be, and why pods are pending (frameworkext.md §4.2, §9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.framework.routes import Answer, Route, refusal
from koordsched.serve.node_info import node_info

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koordsched.scheduler.scheduler import Scheduler


def scheduler_routes(scheduler: Scheduler) -> Sequence[Route]:
    """Return the routes; each answers on the scheduler's loop."""

    def node(named: Mapping[str, str]) -> Answer:
        name = named["nodeName"]
        found = scheduler.cache.node(name)
        return refusal(404, f"cannot find node {name}") if found is None else Answer(node_info(found, scheduler.cache))

    def explain(named: Mapping[str, str]) -> Answer:
        question = f"{named['namespace']}/{named['name']}"
        status = scheduler.explanations.explain(question)
        return refusal(404, f"cannot find pod, gang or job {question}") if status is None else Answer(status)

    return Route("nodes/:nodeName", node), Route("explain/:namespace/:name", explain)
