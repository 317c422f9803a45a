"""AccessFilter: which requests pass, what others are answered. Codes and texts are those of kube-scheduler 1.35.1, asked beside it in
tests/e2e/test_secure_serving.py."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import msgspec
import pytest
from cryptography import x509
from multidict import CIMultiDict, CIMultiDictProxy
from structlog.testing import capture_logs
from support.controlplane.authority import Authority, KeyPair
from support.reviewing import Reviewer

from koordsched.cluster.port import Forbidden, OutcomeUnknown, ServerError, TooManyRequests
from koordsched.server.access.authentication import LINES, Authenticator, Tokens
from koordsched.server.access.authorities import FrontProxy, Trust
from koordsched.server.access.authorization import AccessFilter, AnswerLifetimes, Authorizer, OpenPaths
from koordsched.server.access.identities import Authorities, ProxyRules
from koordsched.server.access.reviews import Reviews, SubjectAccessReviewStatus, UserInfo
from koordsched.server.http import HttpRequest, Response

KNOWN, PROXIES = Authority(), Authority()
NOON = x509.load_pem_x509_certificate(KNOWN.certificate).not_valid_before_utc.timestamp() + 7200


class Scene:
    """A gate that asks a reviewer, and its time."""

    def __init__(self, rules: ProxyRules | None = None, *, reviewed: bool = True) -> None:
        self.server = Reviewer()
        self.now = NOON
        reviews = Reviews(self.server, Random(1)) if reviewed else None
        trust = Trust(Authorities.of(KNOWN.certificate), FrontProxy(Authorities.of(PROXIES.certificate), rules or ProxyRules()))
        tokens = Tokens(reviews, self.time, 10.0) if reviews is not None else None
        paths = OpenPaths(("/healthz", "/open/*"))
        self.gate = AccessFilter(Authenticator(trust, self.time, tokens), Authorizer(paths, reviews, self.time, AnswerLifetimes(20.0, 5.0)))

    def time(self) -> float:
        return self.now

    async def ask(self, path: str = "/metrics", pair: KeyPair | None = None, method: str = "GET", **headers: str) -> Response | None:
        shown = tuple(x509.load_pem_x509_certificates(pair.certificate)) if pair is not None else ()
        given = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
        return await self.gate.refusal(HttpRequest.of(method, path, headers=CIMultiDictProxy(given), chain=shown))


def status(response: Response | None) -> int:
    return 0 if response is None else response.status


def message(response: Response | None) -> str:
    assert response is not None
    assert response.content_type == "application/json"
    return str(msgspec.json.decode(response.body)["message"])


async def test_a_stranger_is_forbidden_in_the_words_of_kube_scheduler() -> None:
    response = await Scene().ask()
    assert response is not None
    assert (response.status, response.body) == (
        403,
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"forbidden: User \\"system:anonymous\\" cannot get '
        b'path \\"/metrics\\"","reason":"Forbidden","details":{},"code":403}\n',
    )


async def test_a_client_with_a_wrong_token_does_not_fill_the_log() -> None:
    scene = Scene()
    with capture_logs() as logs:
        for moment in (*range(25), 61):
            scene.now = NOON + moment
            assert status(await scene.ask(authorization=f"Bearer {moment}")) == 401
    assert [line.get("left_out", 0) for line in logs] == [0] * LINES + [25 - LINES]


async def test_a_client_does_not_fill_the_log_while_no_token_can_be_reviewed() -> None:
    scene = Scene()
    scene.server.refusals = [Forbidden("no")] * 25
    with capture_logs() as logs:
        for moment in range(25):
            assert status(await scene.ask(authorization=f"Bearer {moment}")) == 401
    assert len(logs) == 2 * LINES  # the review's failure, and the refusal


async def test_what_is_shown_and_wrong_is_unauthorized_even_on_open_paths() -> None:
    scene = Scene()
    for path in ("/metrics", "/healthz"):
        response = await scene.ask(path, authorization="Bearer garbage")
        assert response is not None
        assert (response.status, response.body) == (
            401,
            b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}\n',
        )
    assert status(await scene.ask("/healthz", Authority().client("jane"))) == 401
    scene.now += 200_000
    assert status(await scene.ask("/healthz", KNOWN.client("jane"))) == 401


@pytest.mark.parametrize(("path", "expected"), [("/healthz", 0), ("/open/", 0), ("/open/a/b", 0), ("/open", 403), ("/healthz/ping", 403)])
async def test_open_paths_are_for_all_users(path: str, expected: int) -> None:
    assert status(await Scene().ask(path)) == expected


@pytest.mark.parametrize(
    "target", ["//healthz/x", "/healthz/", "/healthz/../metrics", "/open%2f", "/metrics?/healthz", "/metrics#/healthz"]
)
async def test_nothing_else_passes_for_an_open_path(target: str) -> None:
    assert status(await Scene().ask(target)) == (0 if target == "/open%2f" else 403)


async def test_masters_may_everything_and_no_review_is_asked_for() -> None:
    scene = Scene()
    assert await scene.ask(pair=KNOWN.client("root", ("system:masters",))) is None
    assert scene.server.asked == []


async def test_a_review_says_who_asks_for_what() -> None:
    scene = Scene()
    scene.server.allowed.add(("jane", "/metrics"))
    scene.server.tokens["t"] = UserInfo("jane", "u-1", ("dev",), {"scope": ("a",)})
    assert await scene.ask("/metrics?x=1", authorization="Bearer t") is None
    assert scene.server.asked == [
        ("TokenReview", {"token": "t"}),
        (
            "SubjectAccessReview",
            {
                "user": "jane",
                "groups": ("dev", "system:authenticated"),
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
                "uid": "u-1",
                "extra": {"scope": ("a",)},
            },
        ),
    ]
    assert status(await scene.ask("/configz", authorization="bearer t")) == 403


async def test_the_reason_of_a_review_is_answered_and_a_denial_goes_before_a_permission() -> None:
    scene = Scene()
    scene.server.status = SubjectAccessReviewStatus(allowed=True, denied=True, reason="not today")
    assert message(await scene.ask(method="DELETE")) == 'forbidden: User "system:anonymous" cannot delete path "/metrics": not today'


async def test_nothing_that_looks_like_html_comes_back() -> None:
    assert message(await Scene().ask("/<b>")) == 'forbidden: User "system:anonymous" cannot get path "/&lt;b&gt;"'


async def test_answers_hold_for_the_times_of_the_flags() -> None:
    scene = Scene()
    scene.server.allowed.add(("system:anonymous", "/metrics"))
    for path, seconds in (("/metrics", 20.0), ("/configz", 5.0)):
        scene.server.asked.clear()
        for wait, times in ((0.0, 1), (seconds - 0.1, 1), (0.2, 2)):
            scene.now += wait
            await scene.ask(path)
            assert len(scene.server.asked) == times
    scene.server.asked.clear()
    for wait, times in ((0.0, 1), (9.9, 1), (0.2, 2)):
        scene.now += wait
        await scene.ask("/healthz", authorization="Bearer garbage")
        assert len(scene.server.reviews("TokenReview")) == times


async def test_equal_tokens_that_come_together_are_asked_about_once() -> None:
    scene = Scene()
    scene.server.tokens["t"] = UserInfo("jane", groups=("system:masters",))
    assert await asyncio.gather(*(scene.ask(authorization="Bearer t") for _ in range(5))) == [None] * 5
    assert len(scene.server.asked) == 1


@pytest.mark.parametrize("error", [ServerError("down"), TooManyRequests("slowly"), OutcomeUnknown("lost")])
async def test_a_review_is_asked_again_after_what_may_pass(error: Any) -> None:
    scene = Scene()
    scene.server.tokens["t"] = UserInfo("jane", groups=("system:masters",))
    scene.server.refusals = [error] * 4
    assert await scene.ask(authorization="Bearer t") is None
    assert len(scene.server.asked) == 5


async def test_a_token_that_cannot_be_reviewed_is_refused_and_asked_about_anew() -> None:
    scene = Scene()
    scene.server.tokens["t"] = UserInfo("jane", groups=("system:masters",))
    scene.server.refusals = [Forbidden("no")]
    assert status(await scene.ask(authorization="Bearer t")) == 401
    assert status(await scene.ask(authorization="Bearer t")) == 0


async def test_a_token_that_the_api_server_could_not_check_is_asked_about_anew() -> None:
    """As it says right after its start of accounts that it has not read yet, and of any token that none of its authenticators takes."""
    scene = Scene()
    scene.server.flaws["t"] = "[invalid bearer token, service account token is not valid yet]"
    assert status(await scene.ask(authorization="Bearer t")) == 401
    scene.server.tokens["t"] = UserInfo("jane", groups=("system:masters",))
    assert status(await scene.ask(authorization="Bearer t")) == 0


async def test_without_an_answer_about_rights_no_request_passes() -> None:
    scene = Scene()
    scene.server.allowed.add(("system:anonymous", "/metrics"))
    scene.server.refusals = [Forbidden('subjectaccessreviews.authorization.k8s.io is forbidden: User "x" cannot create <it>')]
    response = await scene.ask("/metrics?a=<b>")
    assert response is not None
    assert (response.status, response.body.decode()) == (
        500,
        'Internal Server Error: "/metrics?a=&lt;b&gt;": subjectaccessreviews.authorization.k8s.io is forbidden: '
        'User "x" cannot create &lt;it&gt;\n',
    )
    assert status(await scene.ask()) == 0


async def test_without_an_api_server_only_groups_and_open_paths_authorise() -> None:
    scene = Scene(reviewed=False)
    assert status(await scene.ask(authorization="Bearer t")) == 403
    assert status(await scene.ask("/healthz", authorization="Bearer t")) == 0
    assert status(await scene.ask(pair=KNOWN.client("root", ("system:masters",)))) == 0


@pytest.mark.parametrize("header", ["Basic eDp5", "Bearer ", "Bearer", "", "t"])
async def test_what_is_no_bearer_token_says_nothing(header: str) -> None:
    assert status(await Scene().ask("/healthz", authorization=header)) == 0


async def test_bytes_that_are_no_text_are_answered_like_any_others() -> None:
    """A port hands such bytes on as halves of surrogate pairs, of which no JSON can be written."""
    scene = Scene()
    assert message(await scene.ask("/\udcff%ff")) == 'forbidden: User "system:anonymous" cannot get path "/\ufffd\ufffd"'
    scene.server.allowed.add(("j\ufffd", "/metrics"))
    headers = {"x_remote_user": "j\udcff", "x_remote_group": "d\udcff", "X_Remote_Extra_A": "\udcff"}
    assert status(await scene.ask(pair=PROXIES.client("front-proxy"), **headers)) == 0
    msgspec.json.encode(scene.server.asked)


async def test_a_front_proxy_speaks_for_others() -> None:
    scene = Scene()
    scene.server.allowed.add(("jane", "/metrics"))
    proxy = PROXIES.client("front-proxy")
    headers = {"x_remote_user": "jane", "x_remote_group": "dev", "X_Remote_Extra_Scopes%2fA": "s", "x_remote_uid": "not asked for"}
    assert status(await scene.ask(pair=proxy, **headers)) == 0
    (review,) = scene.server.reviews("SubjectAccessReview")
    assert (review["groups"], review["extra"], "uid" in review) == (("dev", "system:authenticated"), {"scopes/a": ("s",)}, False)
    assert status(await scene.ask(pair=proxy)) == 401  # it names no user, and is no client itself


async def test_headers_count_from_front_proxies_only() -> None:
    scene = Scene()
    boss: dict[str, Any] = {"x_remote_user": "boss", "x_remote_group": "system:masters"}
    assert status(await scene.ask(**boss)) == 403
    assert message(await scene.ask(pair=KNOWN.client("jane"), **boss)) == 'forbidden: User "jane" cannot get path "/metrics"'
    assert status(await scene.ask(pair=Authority().client("front-proxy"), **boss)) == 401


async def test_only_allowed_names_are_front_proxies() -> None:
    scene = Scene(ProxyRules(allowed_names=("front-proxy",)))
    boss: dict[str, Any] = {"x_remote_user": "boss", "x_remote_group": "system:masters"}
    assert status(await scene.ask(pair=PROXIES.client("front-proxy"), **boss)) == 0
    assert status(await scene.ask(pair=PROXIES.client("stranger"), **boss)) == 401


async def test_a_good_token_makes_up_for_a_bad_certificate() -> None:
    scene = Scene()
    scene.server.tokens["t"] = UserInfo("jane", groups=("system:masters",))
    assert await scene.ask(pair=Authority().client("x"), authorization="Bearer t") is None
