"""Which error of the port stands for which answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from koordsched.cluster.apiserver.errors import ApiStatus, SentRequest, answer_error, status_error
from koordsched.cluster.port import (
    AlreadyExists,
    ClusterError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    OutcomeUnknown,
    ServerError,
    TooManyRequests,
    Unauthorized,
)

READ = SentRequest("GET", "https://host:6443/api/v1/pods")
WRITE = SentRequest("POST", "https://host:6443/api/v1/namespaces/a/pods/b/binding")


def status(code: int, reason: str = "", **more: Any) -> bytes:
    return msgspec.json.encode({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "why", **more})


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", Invalid),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (405, "MethodNotAllowed", Invalid),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (410, "Gone", Gone),
        (415, "UnsupportedMediaType", Invalid),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ServerError),
        (502, "", ServerError),
        (503, "ServiceUnavailable", ServerError),
        (307, "", ServerError),
    ],
)
@pytest.mark.parametrize("sent", [READ, WRITE])
def test_the_status_decides(sent: SentRequest, code: int, reason: str, expected: type[ClusterError]) -> None:
    assert type(answer_error(sent, code, status(code, reason))) is expected


def test_the_servers_own_words_are_the_message() -> None:
    assert answer_error(READ, 404, status(404)).message == "why"


def test_a_kind_that_is_not_served_is_not_found_in_client_gos_words() -> None:
    error = answer_error(READ, 404, b"404 page not found\n")
    assert type(error) is NotFound
    assert error.message == "the server could not find the requested resource"


def test_an_answer_that_is_no_status_is_shown_shortened_and_on_one_line() -> None:
    error = answer_error(READ, 502, b"<html>\nbad gateway\n" + b"x" * 1000)
    assert error.status == 502
    assert isinstance(error, ServerError)
    assert error.message.startswith("GET https://host:6443/api/v1/pods: 502: <html> bad gateway xxx")
    assert len(error.message) < 400


@pytest.mark.parametrize("body", [b"", b"{}", b" \n"])
def test_an_answer_that_explains_nothing_is_reported_as_that(body: bytes) -> None:
    shown = "{}" if body == b"{}" else "no explanation"
    assert answer_error(READ, 503, body).message == f"GET https://host:6443/api/v1/pods: 503: {shown}"
    assert status_error(READ, ApiStatus(500)).message == "GET https://host:6443/api/v1/pods: 500: no explanation"


def test_refused_credentials_are_named_with_the_address() -> None:
    error = answer_error(READ, 401, status(401, "Unauthorized"))
    assert type(error) is Unauthorized
    assert error.message == "https://host:6443 does not accept the credentials (why); the token may be expired or wrong"


@pytest.mark.parametrize(
    ("header", "details", "expected"),
    [
        ("7", {}, 7.0),
        (None, {"details": {"retryAfterSeconds": 3}}, 3.0),
        (None, {}, 1.0),
        ("Wed, 21 Oct", {}, 1.0),
        ("0", {}, 0.0),
        ("9999999", {}, 120.0),  # a longer wait would look like giving up
        ("inf", {}, 1.0),
        ("nan", {}, 1.0),
        (None, {"details": {"retryAfterSeconds": -5}}, 0.0),
    ],
)
def test_how_long_to_wait_comes_from_the_header_or_the_status(header: str | None, details: dict[str, Any], expected: float) -> None:
    error = answer_error(WRITE, 429, status(429, **details), header)
    assert isinstance(error, TooManyRequests)
    assert error.retry_after == expected


@pytest.mark.parametrize(
    ("metadata", "token"),
    [({"metadata": {"continue": "next"}}, "next"), ({"metadata": {}}, ""), ({"metadata": {"continue": None}}, ""), ({}, "")],
)
def test_a_list_that_expired_says_how_it_goes_on(metadata: dict[str, Any], token: str) -> None:
    error = answer_error(READ, 410, status(410, "Expired", **metadata))
    assert isinstance(error, Gone)
    assert (error.message, error.continue_token) == ("why", token)


def test_a_server_timeout_that_says_when_to_come_back_is_too_many_requests() -> None:
    error = answer_error(WRITE, 500, status(500, "ServerTimeout", details={"retryAfterSeconds": 2}))
    assert isinstance(error, TooManyRequests)
    assert error.retry_after == 2.0


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (504, "request did not complete within the allotted timeout"),
        (500, "etcdserver: request timed out"),
        (500, "etcdserver: leader changed"),
    ],
)
def test_a_write_that_the_server_gave_up_waiting_for_may_have_been_carried_out(code: int, message: str) -> None:
    body = status(code, "Timeout").replace(b'"why"', b'"%s"' % message.encode())
    assert type(answer_error(WRITE, code, body)) is OutcomeUnknown
    assert type(answer_error(READ, code, body)) is ServerError
