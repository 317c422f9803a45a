"""Random topology spread constraints."""

from __future__ import annotations

from random import Random

from support.differential.affinity import HOSTNAME, ZONE, pod_selector, uses
from support.differential.choosing import Json

KEYS = (ZONE, HOSTNAME, "disk", "no-node-has-it")
HARD = "DoNotSchedule"


def spreading(random: Random) -> Json:
    """Return one or two constraints that differ in key or action, as the API demands."""
    chosen = {}
    for _ in range(random.choice([1, 1, 2])):
        made = constraint(random)
        chosen[made["topologyKey"], made["whenUnsatisfiable"]] = made
    return {"spec": {"topologySpreadConstraints": list(chosen.values())}}


def constraint(random: Random) -> Json:
    key = random.choices(KEYS, [6, 5, 2, 0.5])[0]
    made: Json = {"maxSkew": random.choice([1, 1, 2]), "topologyKey": key, "whenUnsatisfiable": random.choice([HARD, "ScheduleAnyway"])}
    if random.random() < 0.95:
        made["labelSelector"] = selector = pod_selector(random)
        if random.random() < 0.15 and not uses(selector, "version"):
            made["matchLabelKeys"] = ["version"]
    if made["whenUnsatisfiable"] == HARD and random.random() < 0.25:
        made["minDomains"] = random.choice([1, 2, 4])
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if random.random() < 0.25:
            made[policy] = random.choice(["Honor", "Ignore"])
    return made
