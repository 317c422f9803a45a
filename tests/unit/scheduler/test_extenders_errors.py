"""Every way in which an extender can fail, verb by verb: what is said, what is logged, and what the pods get instead."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.builders import node, pod
from support.world import NoCluster

from koordsched.api.core import Pod
from koordsched.cache.cache import Cache
from koordsched.cluster.port import Ref
from koordsched.config.types import ExtenderConfig as Config
from koordsched.config.types import ExtenderTLSConfig
from koordsched.framework.handle import EXTENDER, ExtenderError, SettingsError, Victims
from koordsched.framework.status import Code, Status, error
from koordsched.scheduler.extenders import wire
from koordsched.scheduler.extenders.chain import ExtenderChain
from koordsched.scheduler.extenders.extender import Extender
from koordsched.scheduler.extenders.transport import Reply, Unanswered

URL = "http://e"
POD = pod("p").uid("u0").build()
NODES = [node("n1").build(), node("n2").build()]
VERBS = {"filter_verb": "filter", "prioritize_verb": "prioritize", "bind_verb": "bind", "preempt_verb": "preempt", "weight": 3}
Act = Callable[[Extender], Awaitable[Any]]
ACTS: dict[str, Act] = {
    "filter": lambda extender: extender.filter(POD, NODES),
    "prioritize": lambda extender: extender.prioritize(POD, NODES),
    "bind": lambda extender: extender.bind(POD, "n1"),
    "preempt": lambda extender: extender.preempt(POD, {"n1": Victims((pod("v").info(),))}),
}


class Answers:
    """Stands in for the connection: what it says by verb, an exception is raised; `asked` has the requests."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []

    async def post(self, url: str, body: bytes) -> Reply:
        self.asked.append((url, json.loads(body)))
        answer = self.answers[url.rpartition("/")[2]]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Reply) else Reply(200, json.dumps(answer).encode())


class Unbound(NoCluster):
    """A cluster on which the pod is not bound."""

    async def get(self, ref: Ref) -> Pod:
        return POD


def extender(answers: Answers, prefix: str = URL, **fields: Any) -> Extender:
    transport: Any = answers
    return Extender(Config(url_prefix=prefix, node_cache_capable=True, **{**VERBS, **fields}), transport=transport)


@pytest.mark.parametrize("verb", ACTS)
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Unanswered("no  answer\nwithin 5 s"), 'Post "http://e/{verb}": no answer within 5 s'),
        (Reply(500, b""), "failed {verb} with extender at URL http://e/{verb}, code 500"),
        (Reply(503, b"too busy\n"), "failed {verb} with extender at URL http://e/{verb}, code 503: too busy"),
        (Reply(500, b"\xff"), "failed {verb} with extender at URL http://e/{verb}, code 500: \ufffd"),
        (
            Reply(200, b"<html>"),
            "extender \"http://e/{verb}\": the answer is no JSON: JSON is malformed: invalid character (byte 0): '<html>'",
        ),
    ],
    ids=["no answer", "refusal", "refusal with a reason", "refusal in bytes", "no JSON"],
)
async def test_an_error_names_the_address_and_the_verb(verb: str, answer: Any, said: str) -> None:
    with pytest.raises(ExtenderError) as caught:
        await ACTS[verb](extender(Answers(**{verb: answer})))
    assert str(caught.value) == said.format(verb=verb)


@pytest.mark.parametrize("verb", ["filter", "bind"])
async def test_an_error_in_the_answer_is_repeated(verb: str) -> None:
    with pytest.raises(ExtenderError) as caught:
        await ACTS[verb](extender(Answers(**{verb: {"Error": "out  of\norder"}})))
    assert str(caught.value) == f'extender "http://e/{verb}": out of order'


async def test_a_node_that_was_not_asked_about_is_an_error_with_its_name() -> None:
    with pytest.raises(ExtenderError) as caught:
        await ACTS["filter"](extender(Answers(filter={"NodeNames": ["n1", "else where"]})))
    text = 'filter: extender "http://e" claims a filtered node "else where" which is not found in the input node list'
    assert str(caught.value) == text


async def test_what_is_asked_is_the_pod_with_names_victims_and_the_node() -> None:
    answers = Answers(filter={"NodeNames": ["n2"]}, prioritize=[{"Host": "n1", "Score": 4}], bind={}, preempt={})
    one = extender(answers)
    assert (await one.filter(POD, NODES)).remaining == ("n2",)
    assert await one.prioritize(POD, NODES) == {"n1": 4}
    await one.bind(POD, "n1")
    assert await one.preempt(POD, {"n1": Victims((pod("v").uid("u1").info(),), 2)}) == {}
    (_, filtered), (_, prioritized), (_, bound), (_, preempted) = answers.asked
    assert [url for url, _ in answers.asked] == [f"{URL}/{verb}" for verb in ACTS]
    for asked in (filtered, prioritized):
        assert (asked["Pod"]["metadata"]["name"], asked["NodeNames"], asked["Nodes"]) == ("p", ["n1", "n2"], None)
    assert bound == {"PodName": "p", "PodNamespace": "default", "PodUID": "u0", "Node": "n1"}
    assert preempted["Pod"]["metadata"]["name"] == "p"
    assert preempted["NodeNameToMetaVictims"] == {"n1": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 2}}


def test_a_score_without_a_host_or_a_number_is_0_of_the_empty_name() -> None:
    assert wire.read_priorities(b'[{"score": 3}, {"host": "n1"}]') == {"": 3, "n1": 0}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"nodes": {"items": [{"metadata": {}}]}}', "a node of the answer has no name"),
        (b'{"nodes": {"items": [{}]}}', "a node of the answer has no name"),
        (b'{"nodes": {"items": 5}}', "items: the answer is not what it must be: Expected `array | null`, got `int`: '5'"),
        (b'{"nodenames": 5}', "nodenames: the answer is not what it must be: Expected `array | null`, got `int`: '5'"),
    ],
)
def test_what_is_wrong_with_an_answer_to_filter(body: bytes, said: str) -> None:
    with pytest.raises(wire.MalformedResponse) as caught:
        wire.read_filtered(body, names_only=b"nodenames" in body)
    assert str(caught.value) == said


# The chain


def chain(*extenders: Extender, cache: Cache | None = None) -> ExtenderChain:
    cluster: Any = Unbound()
    return ExtenderChain(extenders, cache or Cache(), cluster)


async def test_each_node_that_does_not_remain_has_the_reason_of_the_extender_that_left_it_out() -> None:
    nodes = [node(f"n{i}").build() for i in range(1, 5)]
    first = extender(Answers(filter={"NodeNames": ["n3", "n4", "n2"], "FailedNodes": {"n1": "busy"}}), "http://first")
    second = extender(Answers(filter={"NodeNames": ["n4"], "FailedAndUnresolvableNodes": {"n2": "broken"}}), "http://second")
    left = await chain(first, second).filter(POD, nodes)
    assert left.remaining == ["n4"]
    assert left.refused == {
        "n1": Status(Code.UNSCHEDULABLE, ("busy",), EXTENDER),
        "n2": Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("broken",), EXTENDER),
        "n3": Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ('node(s) were left out by extender "http://second"',), EXTENDER),
    }


async def test_who_left_no_node_is_the_last_one_asked() -> None:
    last = Answers(filter={})
    left = await chain(extender(Answers(filter={})), extender(last)).filter(POD, NODES)
    assert (left.remaining, last.asked) == ([], [])


async def test_one_that_does_not_filter_or_does_not_want_the_pod_is_passed_over() -> None:
    other = Answers(filter={"NodeNames": ["n2"]})
    without = extender(Answers(), filter_verb="")
    left = await chain(without, extender(other)).filter(POD, NODES)
    assert (left.remaining, len(other.asked)) == (["n2"], 1)


async def test_scores_count_ten_times_the_weight_and_add_up() -> None:
    scores = Answers(prioritize=[{"Host": "n1", "Score": 2}, {"Host": "n2", "Score": 1}])
    both = chain(extender(scores), extender(Answers(prioritize=[{"Host": "n1", "Score": 1}]), weight=1))
    assert await both.prioritize(POD, NODES) == {"n1": 2 * 3 * 10 + 1 * 1 * 10, "n2": 30}
    assert both.prioritizing == 0


FAILURES = "an extender fails and is ignored until it answers again"


def line(verb: str) -> dict[str, object]:
    return {"event": FAILURES, "log_level": "warning", "extender": URL, "verb": verb, "err": f'Post "{URL}/{verb}": down'}


@pytest.mark.parametrize("verb", ACTS)
async def test_an_ignorable_one_that_fails_is_logged_once_until_it_is_well_again(verb: str) -> None:
    cache = Cache()
    cache.set_node(NODES[0])
    victim = pod("v").uid("u1").on("n1").info()
    cache.set_pod(victim, "n1")
    victims = {"n1": Victims((victim,))}
    well = {
        "filter": {"NodeNames": ["n1"]},
        "prioritize": [],
        "bind": {},
        "preempt": {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "u1"}]}}},
    }
    answers = Answers()
    one = chain(extender(answers, ignorable=True), cache=cache)
    acts: dict[str, Callable[[], Awaitable[Any]]] = {
        "filter": lambda: one.filter(POD, NODES[:1]),
        "prioritize": lambda: one.prioritize(POD, NODES),
        "bind": lambda: one.bind(pod("p").info(), "n1"),
        "preempt": lambda: one.preempt(pod("p").info(), victims),
    }
    with capture_logs() as logs:
        for answer in (Unanswered("down"), Unanswered("down"), well[verb], Unanswered("down")):
            answers.answers[verb] = answer
            found = await acts[verb]()
    assert logs == [line(verb)] * 2
    if verb == "filter":
        assert found.remaining == ["n1"]
    else:
        assert found == {"prioritize": {}, "bind": (False, None), "preempt": victims}[verb]
    assert answers.asked[-1][1].get("Pod", {"metadata": {"name": "p"}})["metadata"]["name"] == "p"


@pytest.mark.parametrize("verb", ["filter", "preempt"])
async def test_one_that_must_not_be_ignored_ends_the_attempt_without_a_line(verb: str) -> None:
    one = chain(extender(Answers(**{verb: Unanswered("down")})))
    acts: dict[str, Callable[[], Awaitable[Any]]] = {
        "filter": lambda: one.filter(POD, NODES),
        "preempt": lambda: one.preempt(pod("p").info(), {"n1": Victims(())}),
    }
    with capture_logs() as logs, pytest.raises(ExtenderError, match=f'^Post "{URL}/{verb}": down$'):
        await acts[verb]()
    assert logs == []


async def test_one_that_must_not_be_ignored_and_fails_to_bind_is_an_error_of_the_pod_that_is_not_bound() -> None:
    one = chain(extender(Answers(bind=Unanswered("down"))))
    assert await one.bind(pod("p").uid("u0").info(), "n1") == (True, error(f'Post "{URL}/bind": down'))


def test_a_mistake_in_the_settings_names_the_extender_by_its_number() -> None:
    configs = [Config(url_prefix=URL), Config(url_prefix=URL, tls_config=ExtenderTLSConfig(ca_file="/nowhere"))]
    cluster: Any = NoCluster()
    with pytest.raises(SettingsError, match=r"^extenders\[1\].tlsConfig.caFile: /nowhere: No such file or directory$"):
        ExtenderChain.of(configs, Cache(), cluster)
