"""Gives e2e tests one real control plane a session, emptied before each test; the report of one that fails has the ends of logs.

Without the programs and without Go to build them these tests are skipped and say so; where CI is set they fail instead, so that a green
CI means that they ran.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TypeVar

import pytest
from support.controlplane.binaries import Binaries, ControlPlaneUnavailable, find_or_build
from support.controlplane.plane import ControlPlane
from support.go_programs import BuildFailed
from support.helm import Helm, find_or_build_helm

T = TypeVar("T")
SHOWN_LINES = 60
LEFT_OPEN = "ignore:unclosed:ResourceWarning"
"""Filters what is said of a socket or transport that Python closes, not the test.

Some tests end an event loop while connections to the control plane are open, as a proxy whose requests are cut off. Such a socket is closed
when it is collected, and the warning would fail whichever test happens to run then. The scheduler under test is another process.
"""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", LEFT_OPEN)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the ends of the logs of what a failed test has started, while they are there."""
    report = yield
    plane = getattr(item, "funcargs", {}).get("plane")
    if report.when == "call" and report.failed and isinstance(plane, ControlPlane):
        report.sections += [(f"log of {name}", text) for name, text in sorted(plane.logs(SHOWN_LINES).items())]
    return report


def provide(request: pytest.FixtureRequest, find: Callable[[Mapping[str, str], Callable[[str], None]], T], what: str) -> T:
    """Return what is found or built; without it the test is skipped, or fails where CI is set."""
    terminal = request.config.pluginmanager.get_plugin("terminalreporter")
    capture = request.config.pluginmanager.get_plugin("capturemanager")

    def say(line: str) -> None:
        if terminal is not None and capture is not None:
            with capture.global_and_fixture_disabled():
                terminal.write_line(f"\n{line}", flush=True)

    try:
        return find(os.environ, say)
    except (BuildFailed, ControlPlaneUnavailable) as error:
        if os.environ.get("CI"):
            pytest.fail(f"CI must run the e2e tests, but there is no {what}: {error}", pytrace=False)
        pytest.skip(f"no {what}: {error}")


@pytest.fixture(scope="session")
def binaries(request: pytest.FixtureRequest) -> Binaries:
    """etcd, kube-apiserver and, unless KUBEBUILDER_ASSETS lacks it, kube-scheduler."""
    return provide(request, find_or_build, "control plane")


@pytest.fixture(scope="session")
def helm(request: pytest.FixtureRequest) -> Helm:
    """Helm, to render the chart with."""
    return provide(request, find_or_build_helm, "helm")


@pytest.fixture(scope="session")
def running_plane(binaries: Binaries) -> Iterator[ControlPlane]:
    """The session's control plane, with whatever the tests before have left in it."""
    with ControlPlane(binaries) as running:
        yield running


@pytest.fixture
def plane(running_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The session's control plane with no node, no pod and no other object of an earlier test; programs it spawned end with the test."""
    running_plane.restore()
    yield running_plane
    running_plane.end_programs()
