"""Whatever an extender answers is either read or refused as malformed in one short line; nothing else is ever raised."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.damage import damaged

from koordsched.scheduler.extenders import wire
from koordsched.scheduler.extenders.wire import MalformedResponse

KEYS = [
    "Nodes",
    "nodes",
    "NODENAMES",
    "NodeNames",
    "FailedNodes",
    "failedAndUnresolvableNodes",
    "Error",
    "Host",
    "Score",
    "items",
    "metadata",
]
KEYS += ["name", "NodeNameToMetaVictims", "Pods", "UID", "NumPDBViolations", "n1", ""]

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["n1", "n2"])
values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=4)
)
written = values.map(lambda value: json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass"))
answers = st.binary(max_size=30) | written | damaged(written)


@given(answers)
def test_any_answer_is_read_or_refused_in_one_line(answer: bytes) -> None:
    for read in (
        lambda: wire.read_filtered(answer, names_only=True),
        lambda: wire.read_filtered(answer, names_only=False),
        lambda: wire.read_priorities(answer),
        lambda: wire.read_preempted(answer),
        lambda: wire.read_bound(answer),
    ):
        try:
            read()
        except MalformedResponse as refusal:
            text = str(refusal)
            assert text == " ".join(text.split())
            assert len(text) < 1024


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.integers(0, 10), max_size=5))
def test_scores_come_back_as_they_were_given(scores: dict[str, int]) -> None:
    answer = json.dumps([{"Host": host, "Score": score} for host, score in scores.items()]).encode()
    assert wire.read_priorities(answer) == scores


@given(
    st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=6),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
)
def test_names_and_reasons_keep_their_case_and_order(names: list[str], failed: dict[str, str]) -> None:
    answer = json.dumps({"nodenames": names, "FAILEDNODES": failed}).encode()
    read = wire.read_filtered(answer, names_only=True)
    assert (read.remaining, dict(read.failed)) == (tuple(names), failed)
