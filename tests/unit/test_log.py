"""The log of a serving process: one line a message, in klog's text or component-base's JSON."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator

import pytest

from koordsched.log import Style, get_logger, set_verbosity, verbosity, write_logs

WHEN = 1_795_288_580.5  # seconds since the epoch


class Log:
    """A log in one of the formats."""

    def __init__(self, format_: str) -> None:
        self._stream = io.StringIO()
        write_logs(Style(format_, lambda: WHEN, self._stream))

    @property
    def text(self) -> str:
        return self._stream.getvalue()


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = verbosity()
    yield
    write_logs(None)
    set_verbosity(before)


@pytest.mark.parametrize("quiet", [False, True])
def test_a_traceback_shows_no_values_of_variables(quiet: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Not those of a scheduler, which are the whole cluster, as structlog would with rich."""
    monkeypatch.setattr("koordsched.log._quiet", quiet)
    shown = []

    class Cluster:
        def __repr__(self) -> str:
            shown.append(self)
            return "50,000 pods"

    def fail(_cluster: Cluster) -> None:
        raise ValueError("no way")

    try:
        fail(Cluster())
    except ValueError:
        get_logger("koordsched.x").exception("binding failed")
    out, err = capsys.readouterr()
    assert "ValueError: no way" in (err if quiet else out)
    assert shown == []


def test_a_line_of_text_has_klogs_head_and_quoted_fields() -> None:
    log = Log("text")
    get_logger("koordsched.scheduler.x").bind(pod="default/p").info(
        'it is "so"', nodes=3, ready=True, names=["a", "b"], err=ValueError("no\nway")
    )
    head, rest = log.text.split("] ", 1)
    assert re.fullmatch(r"I\d{4} \d\d:\d\d:\d\d\.500000 scheduler\.x", head)
    assert rest == '"it is \\"so\\"" pod="default/p" nodes=3 ready=true names=["a", "b"] err="no\\nway"\n'


@pytest.mark.parametrize(("level", "letter"), [("info", "I"), ("warning", "W"), ("error", "E")])
def test_the_first_letter_is_the_severity(level: str, letter: str) -> None:
    log = Log("text")
    getattr(get_logger("koordsched.x"), level)("m")
    assert log.text[0] == letter


def test_a_line_of_json_has_time_and_message_under_the_names_of_kubernetes() -> None:
    log = Log("json")
    get_logger("koordsched.x").warning("late", pod="default/p", seconds=1.5)
    assert json.loads(log.text) == {
        "ts": WHEN * 1000,
        "logger": "x",
        "level": "warning",
        "msg": "late",
        "pod": "default/p",
        "seconds": 1.5,
    }


@pytest.mark.parametrize("format_", ["text", "json"])
def test_an_exception_is_logged_with_its_traceback(format_: str) -> None:
    log = Log(format_)
    try:
        raise KeyError("k")
    except KeyError as error:
        get_logger("koordsched.x").exception("failed", err=str(error))
    assert "Traceback (most recent call last):" in log.text
    assert "KeyError: 'k'" in log.text
    if format_ == "json":
        assert log.text.count("\n") == 1


def test_debug_messages_are_written_from_verbosity_four_on() -> None:
    log = Log("json")
    logger = get_logger("koordsched.x")
    for level in (0, 3, 4, 10):
        set_verbosity(level)
        logger.debug(f"at {level}")
    assert [json.loads(line)["msg"] for line in log.text.splitlines()] == ["at 4", "at 10"]


def test_a_logger_that_has_written_follows_a_change_of_style() -> None:
    logger = get_logger("koordsched.x").bind(kind="pods")
    first = Log("text")
    logger.info("a")
    second = Log("json")
    logger.info("b")
    assert first.text.endswith('"a" kind="pods"\n')
    assert json.loads(second.text)["kind"] == "pods"
