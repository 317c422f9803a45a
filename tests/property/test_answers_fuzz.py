"""Whatever an API server answers is read, or refused with one of the errors that callers expect; nothing else is ever raised."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damage import damaged

from koordsched.api.kinds import CONFIG_MAP, NODE, POD, Kind
from koordsched.cluster.apiserver.decoding import UNDECODABLE, KindDecoder
from koordsched.cluster.apiserver.errors import SentRequest, answer_error
from koordsched.cluster.port import ClusterError, WatchEvent
from koordsched.server.access.reviews import SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW

POD_BODY = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "d", "uid": "u", "resourceVersion": "7", "labels": {"a": "é"}, "annotations": None},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "nodeSelector": {"k": "v"}},
}
NODE_BODY = {"metadata": {"name": "n", "resourceVersion": "7"}, "status": {"allocatable": {"cpu": "4"}, "images": [{"names": ["i"]}]}}
REVIEW_BODY = {"status": {"authenticated": True, "user": {"username": "u", "groups": ["g"], "extra": {"a": ["b", "c"], "d": []}}}}
STATUS_BODY = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "no é", "details": {"retryAfterSeconds": 3}}
BODIES = {
    POD: POD_BODY,
    NODE: NODE_BODY,
    CONFIG_MAP: POD_BODY,
    TOKEN_REVIEW: REVIEW_BODY,
    SUBJECT_ACCESS_REVIEW: {"status": {"allowed": True}},
}
DECODERS = {kind: KindDecoder(kind) for kind in BODIES}
kinds = st.sampled_from(list(BODIES))


def broken(body: object) -> st.SearchStrategy[bytes]:
    return damaged(st.just(json.dumps(body, ensure_ascii=False).encode()))


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordsched.log._quiet", True)


@given(kinds, st.data())
def test_an_object_is_read_or_undecodable(kind: Kind, data: st.DataObject) -> None:
    with suppress(*UNDECODABLE):
        DECODERS[kind].object(data.draw(broken(BODIES[kind])))


@given(kinds, st.data())
def test_a_page_is_read_or_undecodable(kind: Kind, data: st.DataObject) -> None:
    body = {"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [BODIES[kind], BODIES[kind]]}
    with suppress(*UNDECODABLE):
        assert len(asyncio.run(DECODERS[kind].page(data.draw(broken(body)))).items) <= 4


@given(kinds, st.data())
def test_lines_of_a_watch_are_read_or_left_out(kind: Kind, data: st.DataObject) -> None:
    lines = [
        {"type": event, "object": STATUS_BODY if event == "ERROR" else BODIES[kind]} for event in ("ADDED", "DELETED", "BOOKMARK", "ERROR")
    ]
    batch = DECODERS[kind].batch(b"".join(data.draw(broken(line)) + b"\n" for line in data.draw(st.permutations(lines))))
    assert all(isinstance(event, WatchEvent) for event in batch.events)


@given(broken(STATUS_BODY), st.sampled_from([300, 400, 404, 409, 429, 500, 504]), st.none() | st.text(max_size=5))
def test_a_refusal_is_an_error_of_the_port_with_a_line(body: bytes, code: int, retry_after: str | None) -> None:
    error = answer_error(SentRequest("POST", "http://h/x"), code, body, retry_after)
    assert isinstance(error, ClusterError)
    assert error.message
    assert 0 <= getattr(error, "retry_after", 0.0) <= 120
