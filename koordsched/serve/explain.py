"""/apis/v1/explain beside the plugins' routes: what would let a pod run, and where a pod would go that is not there yet.

    GET  /apis/v1/explain/NAMESPACE/NAME/changes   as `koord-scheduler explain NAME --server URL` shows it
    POST /apis/v1/explain                          the same of the pod in the body, in JSON: a dry run, nothing is written

Query: `changes=false` looks for none; `scores=N` is of how many nodes scores are shown. Made on the scheduler's loop in slices.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.kinds import POD
from koordsched.api.meta import JSON_ERRORS
from koordsched.api.quantity import QuantityError
from koordsched.api.validation import InvalidObject, decode
from koordsched.clock import rfc3339
from koordsched.cluster.port import ClusterError, Forbidden
from koordsched.scheduler.suggestions.answers import SHOWN_SCORES, AnswerOptions
from koordsched.scheduler.suggestions.explanation import REJECTED, Explanation
from koordsched.serve.dry_run import KnownClasses, UnknownPriorityError, admit, classes_of, completed, needs_classes, standard_classes
from koordsched.serve.plugin_routes import NOT_LEADER
from koordsched.server.budget import Bounds, KeptAnswers
from koordsched.server.http import EXPLAIN_PATH, JSON, Response

if TYPE_CHECKING:
    from koordsched.scheduler.scheduler import Scheduler
    from koordsched.server.http import HttpRequest
    from koordsched.server.main_loop import MainLoop
    from koordsched.slices import Slices

CHANGES = "changes"
SHARE = Bounds(1 / 50)
"""What explanations may take of the time: after one of 50 ms the next one comes 2.5 s later."""
MOST_SCORES = 5_000
CLASSES_SECONDS = 3.0
SERVICES = {"GET": [f"{EXPLAIN_PATH}/:namespace/:name/{CHANGES}"], "POST": [EXPLAIN_PATH]}


class ExplainEndpoint:
    """Answers for one scheduler; made on its loop."""

    def __init__(self, scheduler: Scheduler, loop: MainLoop) -> None:
        self._scheduler = scheduler
        self._loop = loop
        self._kept = KeptAnswers(loop.cpu_seconds, SHARE)  # what else runs on the machine is no work

    def concerns(self, request: HttpRequest) -> bool:
        """Answer whether it is this endpoint that answers the request."""
        parts = _parts(request.path)
        return (request.method == "GET" and parts[2:] == [CHANGES]) or (request.method == "POST" and not parts)

    async def answer(self, request: HttpRequest, *, leading: bool) -> Response:
        """Answer a request that concerns it."""
        if not leading:
            return NOT_LEADER
        return await self._kept.answer((request.method, request.uri, request.body), partial(self._answer, request))

    async def _answer(self, request: HttpRequest, work: Slices) -> Response:
        scores = request.query.get("scores", [str(SHOWN_SCORES)])[-1]
        if not scores.isdecimal() or int(scores) > MOST_SCORES:
            return _refused(400, f"scores: expected a whole number up to {MOST_SCORES}, not {scores[:40]!r}")
        asked = AnswerOptions(changes=request.query.get(CHANGES, ["true"])[-1] != "false", scores=int(scores))
        if request.method == "POST":
            return await self._dry_run(request.body, asked, work)
        namespace, name, _ = _parts(request.path)

        async def explained() -> Response:
            with work:
                found = await self._scheduler.answers.of_pod(f"{namespace}/{name}", asked, work)
            return _refused(404, f"cannot find pod {namespace}/{name}") if found is None else _json(found)

        return await self._loop.run(explained)

    async def _dry_run(self, body: bytes, asked: AnswerOptions, work: Slices) -> Response:
        try:
            raw = msgspec.json.decode(body)
            if not isinstance(raw, dict) or raw.get("kind", "Pod") != "Pod" or not isinstance(raw.get("metadata"), dict):
                return _refused(400, "expected a Pod, as JSON")
            raw = completed(raw, self._scheduler.profiles)
            classes = await self._loop.run(self._classes) if needs_classes(raw) else KnownClasses()
            notes = admit(raw, classes, rfc3339(self._scheduler.clock.now()))
            decode(POD, raw)
        except JSON_ERRORS as mistake:
            return _refused(400, f"the body is no JSON: {mistake}")
        except InvalidObject as mistake:
            return _refused(400, f"the pod is invalid: {mistake}")
        except UnknownPriorityError as unknown:
            return _refused(503, str(unknown))
        except Forbidden as refusal:
            metadata = raw["metadata"]
            return _json(Explanation(pod=f"{metadata['namespace']}/{metadata['name']}", state=REJECTED, message=refusal.message))

        async def explained() -> Response:
            try:
                with work:
                    found = await self._scheduler.answers.of_dry_run(raw, asked, work)
            except QuantityError as mistake:
                return _refused(400, str(mistake))
            return _json(msgspec.structs.replace(found, notes=notes))

        return await self._loop.run(explained)

    async def _classes(self) -> KnownClasses:
        try:
            async with asyncio.timeout(CLASSES_SECONDS):
                return classes_of(await self._scheduler.answers.priority_classes())
        except ClusterError as error:
            return standard_classes(error.message)
        except TimeoutError:
            return standard_classes(f"the API server has not listed priorityclasses within {CLASSES_SECONDS:.0f} s")


def _parts(path: str) -> list[str]:
    """Return what stands behind the endpoint's own path; one empty part for another path."""
    if path.rstrip("/") == EXPLAIN_PATH:
        return []
    return path.removeprefix(f"{EXPLAIN_PATH}/").split("/") if path.startswith(f"{EXPLAIN_PATH}/") else [""]


def _json(body: Any) -> Response:
    return Response(200, JSON, msgspec.json.encode(body))


def _refused(status: int, message: str) -> Response:
    return Response(status, JSON, msgspec.json.encode({"message": message}))
