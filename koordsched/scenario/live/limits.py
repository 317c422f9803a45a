"""Decide which scenarios cannot be played on a cluster, before anything is written to it: pure functions, each a reason or ""."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from koordsched.config.catalogue import IN_TREE_POINTS
from koordsched.config.loading import Launch
from koordsched.config.types import SchedulerConfiguration
from koordsched.scenario.model import KUBE_SCHEDULER, Create, Expect, PatchObjects, Restart, Scenario, Wait


class BackendLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend cannot play; the defaults are those of the embedded cluster, which plays everything.

    max_wait: seconds that a scenario may let pass. served: the scheduler runs already, with the common configuration, and is not ours to
    configure, restart or ask. against: which other scheduler is tested (model.KNOWN_SCHEDULERS), "" ours.
    """

    max_wait: float = math.inf
    served: bool = False
    against: str = ""


UNLIMITED = BackendLimits()
REAL_MAX_WAIT = 60.0
BEYOND_KUBERNETES = re.compile(r"[\w.-]*\b(?:koordinator\.sh|sigs\.k8s\.io|topology\.node\.k8s\.io)/[\w.-]+")
"""Names of annotations, labels, resources and API versions that Koordinator reads and kube-scheduler does not."""


def why_skipped(scenario: Scenario, launch: Launch, limits: BackendLimits) -> str:
    """Return why the scenario is not to be played, or "" when it is. `launch` is what its scheduler would be started with."""
    return (
        _differs(scenario, launch, limits.against)
        or (_needs_own_scheduler(scenario) if limits.served else "")
        or _too_long(scenario, limits.max_wait)
    )


def differs_from_served(scenario: Scenario, common: SchedulerConfiguration) -> str:
    """Return why a scheduler that runs the common configuration will not do: the scenario brings another one."""
    return "" if scenario.config in (None, common) else "its configuration is not that of the scheduler that serves the cluster"


def _differs(scenario: Scenario, launch: Launch, against: str) -> str:
    if why := scenario.differs.get(against):
        return f"{against} differs: {why}"
    if against != KUBE_SCHEDULER:
        return ""
    if foreign := sorted(_named_plugins(launch.document) - IN_TREE_POINTS.keys()):
        return f"{against} has no {', '.join(foreign)}"
    unknown = sorted(set(BEYOND_KUBERNETES.findall(msgspec.json.encode(_written(scenario)).decode())))
    return f"{against} does not know {', '.join(unknown)}" if unknown else ""


def _written(scenario: Scenario) -> list[dict[str, Any]]:
    """Return all objects that the scenario creates, and what it patches them with."""
    written = [initial.body for initial in scenario.given]
    for step in scenario.steps:
        match step.action:
            case Create(objects=objects):
                written += [initial.body for initial in objects]
            case PatchObjects(patches=patches):
                written += [patch.merge for patch in patches]
    return written


def _named_plugins(document: Mapping[str, Any]) -> set[str]:
    """Return the plugins that a configuration, as it was given, enables or has arguments for."""
    names = set()
    for profile in document.get("profiles") or ():
        names |= {entry["name"] for entry in profile.get("pluginConfig") or ()}
        for plugins in (profile.get("plugins") or {}).values():
            names |= {entry["name"] for entry in (plugins or {}).get("enabled") or ()}
    return names


def _needs_own_scheduler(scenario: Scenario) -> str:
    if scenario.args:
        return f"the scheduler that serves the cluster cannot be given {' '.join(scenario.args)}"
    for step in scenario.steps:
        if isinstance(step.action, Restart):
            return f"{step.path}: the scheduler that serves the cluster cannot be restarted"
        if isinstance(step.action, Expect) and step.action.http:
            return f"{step.path}: the port of the scheduler that serves the cluster is not known"
    return ""


def _too_long(scenario: Scenario, max_wait: float) -> str:
    seconds = sum(_passing(step.action) for step in scenario.steps)
    return f"it lets {seconds:g}s pass, more than {max_wait:g}s" if seconds > max_wait else ""


def _passing(action: object) -> float:
    match action:
        case Wait(seconds=seconds):
            return seconds
        case Expect(stays=stays):
            return stays
        case _:
            return 0.0
