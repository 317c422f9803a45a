"""Plays a history on a real control plane, with a scheduler that is there, and notes what is there after each step."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

from koordsched.api.kinds import ELASTIC_QUOTA, POD, POD_GROUP, RESERVATION, Kind
from support.controlplane.rest import Refused, Rest
from support.differential.choosing import Json
from support.differential.histories.lives import Change, History
from support.differential.objects import address, create

LEAST_SECONDS, QUIET_SECONDS, MOST_SECONDS = 3.0, 2.5, 20.0
"""A step takes until nothing has changed for so long: a refused pod is tried again after a second."""
POLL_SECONDS = 0.4
LINK = "scheduling.koordinator.sh/reservation-allocated"
GATED = "SchedulingGated"
"""What ours says of members that are held back, and the reference does not (coscheduling.md D9)."""
NO_PREEMPTION = re.compile(r" preemption: pod \"[^\"]*\" not found$")
NO_VICTIMS = re.compile(r"(?:, )?1 No victims found on node \S+ for preemptor pod [^,. ]+")
IN_QUOTA = "No victims found in the quota of the preemptor pod"
DOMAINS = re.compile(r"topology topologyNode [^;,]+(?:;topology topologyNode [^;,]+)*")
MOST_DOMAINS = 32
"""Ours sums up those beyond (differences.md)."""
MEMBER = re.compile(r"Pod (l\d+-g\d+)-m\d+")
"""What is noted of a member, as `histories.gangs` names it."""
NOT_PLACED = {"", "Pending", "PreScheduling", "Scheduling"}
"""Phases that ours writes later, or not at all where a gang is placed meanwhile (differences.md)."""
QUOTA = "quota.scheduling.koordinator.sh/"
QUOTA_ANNOTATIONS = ("request", "child-request", "non-preemptible-request", "non-preemptible-used")
"""But for the runtime, which the reference writes when it happens to refresh it (elasticquota.md DEV-1)."""

Seen = dict[str, Json]
"""What is there of one life, by kind and name."""


def play(rest: Rest, history: History, say: Callable[[str], None]) -> dict[str, list[Seen]]:
    """Make all changes, step by step, and return what is there of each life after each step, as a user sees it."""
    seen: dict[str, list[Seen]] = {life.name: [] for life in history.lives}
    for step in range(max(len(life.steps) for life in history.lives)):
        for life in history.lives:
            for change in life.steps[step] if step < len(life.steps) else ():
                carry_out(rest, change)
        found = settled(rest, history)
        for name, of_life in found.items():
            seen[name].append(of_life)
        say(f"step {step}")
    return seen


def carry_out(rest: Rest, change: Change) -> None:
    body = change.body
    path = address(body).of(body["metadata"]["name"])
    try:
        if change.verb == "create":
            create(rest, body)
        elif change.verb == "delete":
            rest.delete(f"{path}?gracePeriodSeconds=0")
        else:
            patch = {key: value for key, value in body.items() if key not in {"apiVersion", "kind"}}
            rest.patch(f"{path}/status" if change.verb == "status" else path, patch)
    except Refused as refused:
        if refused.status not in {404, 422}:  # it has ended by itself on one side, or the API server takes no such object
            raise


def settled(rest: Rest, history: History) -> dict[str, Seen]:
    """Return what is there once nothing has changed for a while."""
    begun = changed = time.monotonic()
    found = look(rest, history)
    while True:
        time.sleep(POLL_SECONDS)
        again, now = look(rest, history), time.monotonic()
        if again != found:
            found, changed = again, now
        if (now - changed >= QUIET_SECONDS and now - begun >= LEAST_SECONDS) or now - begun >= MOST_SECONDS:
            return found


def look(rest: Rest, history: History) -> dict[str, Seen]:
    found: dict[str, Seen] = {life.name: {} for life in history.lives}
    for kind, view in VIEWS.items():
        root = f"/apis/{kind.api_version}" if "/" in kind.api_version else f"/api/{kind.api_version}"
        for body in rest.get(f"{root}/{kind.plural}")["items"]:
            life = body["metadata"]["name"].split("-")[0]
            if life in found:
                found[life][f"{kind.kind} {body['metadata']['name']}"] = view(body)
    return {life: gathered(seen) for life, seen in found.items()}


def gathered(seen: Seen) -> Seen:
    """Return the same with the members of a gang in one place and without their names: which of equal members goes where is chance."""
    found: Seen = {}
    members: dict[str, list[str]] = {}
    for name, view in seen.items():
        if member := MEMBER.fullmatch(name):
            members.setdefault(member[1], []).append(re.sub(rf"{member[1]}-m\d+", f"{member[1]}-MEMBER", json.dumps(view, sort_keys=True)))
        else:
            found[name] = view
    return found | {f"Members of {gang}": {"pods": sorted(views)} for gang, views in members.items()}


def of_pod(body: Json) -> Json:
    """Return where the pod is or why it is nowhere, and what it was given."""
    conditions = {each["type"]: each for each in body.get("status", {}).get("conditions", ())}
    refused = conditions.get("PodScheduled", {})
    seen: Json = {"node": body["spec"].get("nodeName", "")}
    if not seen["node"]:
        gated = refused.get("reason") == GATED
        seen |= (
            {"reason": "", "message": ""}
            if gated
            else {"reason": refused.get("reason", ""), "message": comparable(refused.get("message", ""))}
        )
    link = body["metadata"].get("annotations", {}).get(LINK)
    if link:
        seen["reservation"] = json.loads(link).get("name")
    if nominated := body.get("status", {}).get("nominatedNodeName"):
        seen["nominated"] = nominated
    return seen


def comparable(message: str) -> str:
    """Return the message with one text for nodes without victims in a quota, and for lists of many domains (differences.md)."""
    message = DOMAINS.sub(lambda found: found[0] if found[0].count(";") < MOST_DOMAINS else "MANY DOMAINS", message)
    found = NO_VICTIMS.search(message)
    if found is None:
        return message
    rest, at = NO_VICTIMS.sub("", message), found.start()
    lead = ", " if found[0].startswith(", ") else ""
    return f"{rest[:at]}{lead}{len(NO_VICTIMS.findall(message))} {IN_QUOTA}{rest[at:]}"


def of_reservation(body: Json) -> Json:
    """Return what is said of it, but for what ours says of one that is well, and the reference's noise of preemption (differences.md)."""
    status: Any = body.get("status", {})
    return {
        "phase": status.get("phase", ""),
        "node": status.get("nodeName", ""),
        "allocatable": status.get("allocatable", {}),
        "allocated": status.get("allocated", {}),
        "owners": sorted(each["name"] for each in status.get("currentOwners") or ()),
        "conditions": sorted(
            [each["type"], each["status"], each.get("reason", ""), NO_PREEMPTION.sub("", each.get("message", ""))]
            for each in status.get("conditions") or ()
        ),
    }


def of_quota(body: Json) -> Json:
    annotations = body["metadata"].get("annotations", {})
    seen: Json = {key: json.loads(annotations[QUOTA + key]) for key in QUOTA_ANNOTATIONS if annotations.get(QUOTA + key)}
    return {**seen, "used": body.get("status", {}).get("used", {})}


def of_pod_group(body: Json) -> Json:
    status: Any = body.get("status", {})
    seen: Json = {key: status.get(key, default) for key, default in (("phase", ""), ("scheduled", 0), ("running", 0), ("failed", 0))}
    return seen | {"phase": "not placed"} if seen["phase"] in NOT_PLACED else seen


VIEWS: dict[Kind, Callable[[Json], Json]] = {
    POD: of_pod,
    RESERVATION: of_reservation,
    ELASTIC_QUOTA: of_quota,
    POD_GROUP: of_pod_group,
}
"""What is noted of objects, by their kinds."""
