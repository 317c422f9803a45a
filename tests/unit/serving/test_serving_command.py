"""What is said when serving starts, and what becomes of the logs of libraries."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from support.fakes import config_with

import koordsched
from koordsched.config.flags import parse_flags
from koordsched.log import carrying_library_logs
from koordsched.serve.command import Start, say_what_starts

NO_ELECTION = {"leaderElection": {"leaderElect": False}}


def said(logged: Any, *arguments: str, doubts: tuple[str, ...] = (), **config: Any) -> list[dict[str, Any]]:
    say_what_starts(Start(parse_flags(arguments), config_with({}, **{**NO_ELECTION, **config}), doubts))
    return list(logged.all())


def test_the_version_and_the_given_flags_are_logged_and_nothing_else(logged: Any) -> None:
    (line,) = said(logged, "--secure-port=0", "--scheduling-timeout=5s", "--leader-elect=false")[:1]
    assert line["msg"] == "koord-scheduler starts"
    assert line["version"] == koordsched.__version__
    assert line["flags"] == {"leader-elect": False, "scheduling-timeout": "5s", "secure-port": 0}


def test_every_flag_that_changes_nothing_is_named(logged: Any) -> None:
    said(logged, "--log-flush-frequency=2m", "--secure-port=0", "--vmodule=a=1")
    assert [(line["msg"], line["flag"]) for line in logged.all() if line["level"] == "warning"] == [
        ("a flag changes nothing in this version", "--log-flush-frequency"),
        ("a flag changes nothing in this version", "--vmodule"),
    ]


def test_flags_that_a_configuration_file_makes_ineffective_are_named(logged: Any) -> None:
    said(logged, "--config=/c.yaml", "--kubeconfig=/k", "--kube-api-qps=9")
    assert [(line["msg"], line["flag"]) for line in logged.all() if line["level"] == "warning"] == [
        ("a flag is ignored because --config is given", "--kube-api-qps"),
        ("a flag is ignored because --config is given", "--kubeconfig"),
    ]


def test_doubts_about_the_configuration_are_warnings(logged: Any) -> None:
    said(logged, doubts=("profile x: odd",))
    assert logged.of("warning") == ["profile x: odd"]


@pytest.mark.parametrize(("verbosity", "flags", "config"), [(0, 0, 0), (1, 1, 0), (2, 1, 1)])
def test_all_flags_and_the_configuration_are_logged_when_asked_for(logged: Any, verbosity: int, flags: int, config: int) -> None:
    said(logged, f"-v={verbosity}")
    infos = logged.of("info")
    assert infos.count('FLAG: --bind-address="0.0.0.0"') == flags
    assert infos.count("using the configuration") == config


def test_flags_are_logged_as_pflag_writes_them(logged: Any) -> None:
    said(logged, "-v=1", '--allow-metric-labels="m,l=c,d"', "--sync-hard-timeout=90s", '--config=a"b')
    lines = {line.removeprefix("FLAG: --") for line in logged.of("info") if line.startswith("FLAG: --")}
    assert lines >= {
        'leader-elect="true"',
        'kube-api-qps="50"',
        'sync-hard-timeout="1m30s"',
        'authorization-always-allow-paths="[/healthz,/readyz,/livez]"',
        'disabled-metrics="[]"',
        'allow-metric-labels="[m,l=c,d]"',
        'config="a\\"b"',
    }


def test_warnings_of_libraries_come_in_our_format(logged: Any) -> None:
    library = logging.getLogger("some.library")
    with carrying_library_logs():
        library.info("not this")
        library.warning("slow %s", "answer")
        library.error("bad")
        try:
            raise OSError("gone")
        except OSError:
            library.exception("worse")
    library.error("not carried")
    assert [(line["logger"], line["level"], line["msg"]) for line in logged.all()] == [
        ("some.library", "warning", "slow answer"),
        ("some.library", "error", "bad"),
        ("some.library", "error", "worse"),
    ]
    assert "OSError: gone" in logged.all()[2]["exception"]
