"""Delays: whatever the count, they neither overflow nor shrink, and nothing in the package grows them in another way."""

from __future__ import annotations

import ast
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

import koordsched
from koordsched.backoff import Backoff, grown

SECONDS = st.floats(0.001, 3600.0)
COUNTS = st.integers(0, 10**6) | st.integers(1000, 1100) | st.just(10**30)


@given(first=SECONDS, cap=SECONDS, factor=st.floats(1.0, 10.0), failures=COUNTS, more=st.integers(0, 10**6))
def test_a_delay_is_within_its_bounds_and_never_shorter_than_the_one_before(
    first: float, cap: float, factor: float, failures: int, more: int
) -> None:
    delay = grown(first, cap, failures, factor)
    assert 0.0 <= delay <= cap
    assert delay <= grown(first, cap, failures + more, factor)
    assert (delay == 0.0) == (failures == 0)


@given(failures=st.integers(1, 40))
def test_it_doubles_until_the_cap(failures: int) -> None:
    assert grown(0.2, 30.0, failures) == min(0.2 * 2 ** (failures - 1), 30.0)


def test_a_million_failures_in_a_row() -> None:
    backoff = Backoff(Random(1), first=0.2, cap=30.0, jitter=0.5)
    delays = [backoff.delay() for _ in range(10**6)]
    assert backoff.failures == 10**6
    assert min(delays) >= 0.2
    assert max(delays) <= 45.0
    assert min(delays[10:]) >= 30.0
    assert len(set(delays[10:1000])) > 900  # chance parts those who fail together
    backoff.reset()
    assert 0.2 <= backoff.delay() <= 0.3


def test_no_other_module_grows_a_delay() -> None:
    """A power with a variable exponent, or a delay multiplied by itself, is how they overflow."""
    package = Path(koordsched.__file__).parent
    found = [
        f"{path.relative_to(package)}:{node.lineno}: {ast.unparse(node)}"
        for path in sorted(package.rglob("*.py"))
        if path.name != "backoff.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.BinOp | ast.AugAssign) and _grows(node)
    ]
    assert [line.partition(": ")[2] for line in found] == [
        "10 ** min(abs(exponent), _MAX_EXPONENT)",  # api/quantity.py: of a quantity's text; bounded there
        "10 ** len(fraction)",  # config/duration.py: of a flag's text; an integer
        *["2 ** (bits - 1)"] * 2,  # config/flag_values.py: 32 and 64
    ], found


def _grows(node: ast.BinOp | ast.AugAssign) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Pow) and not isinstance(node.right, ast.Constant)
    grown_words = ("delay", "pause", "wait", "backoff")
    return isinstance(node.op, ast.Mult | ast.Pow) and any(word in ast.unparse(node.target).lower() for word in grown_words)
