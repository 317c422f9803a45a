"""Random node affinity and affinity to other pods, with the operators and corners that their readers must get right."""

from __future__ import annotations

from random import Random

from support.differential.choosing import Json, some
from support.differential.vocabulary import APPS, DISKS, NAMESPACES, TEAMS, TIERS, ZONES

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
TOPOLOGIES = (HOSTNAME, ZONE, ZONE, "disk")
NODES = tuple(f"n{i}" for i in range(10))
VALUES = {"disk": DISKS, ZONE: ZONES, "tier": TIERS}


def node_affinity(random: Random) -> Json:
    """Return required or preferred terms, or both."""
    found: Json = {}
    if random.random() < 0.6:
        terms = [node_term(random) for _ in range(random.choice([1, 1, 2, 3]))]
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if random.random() < 0.6:
        weights = [random.choice([1, 10, 30, 50, 100]) for _ in range(random.choice([1, 2, 3]))]
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [{"weight": w, "preference": node_term(random)} for w in weights]
    return {"spec": {"affinity": {"nodeAffinity": found}}} if found else {}


def node_term(random: Random) -> Json:
    """Return a term; one with nothing in it matches nothing."""
    term: Json = {}
    if random.random() < 0.8:
        term["matchExpressions"] = [node_requirement(random) for _ in range(random.choice([1, 1, 2]))]
    if random.random() < 0.2:
        term["matchFields"] = [{"key": "metadata.name", "operator": random.choice(["In", "In", "NotIn"]), "values": [random.choice(NODES)]}]
    return term


def node_requirement(random: Random) -> Json:
    key = random.choice(["disk", ZONE, "tier", "tier"])
    operators = ["In", "NotIn", "Exists", "DoesNotExist"] + (["Gt", "Lt"] if key == "tier" else [])
    return requirement(random, key, random.choice(operators), VALUES[key])


def requirement(random: Random, key: str, operator: str, values: tuple[str, ...]) -> Json:
    if operator in {"Exists", "DoesNotExist"}:
        return {"key": key, "operator": operator}
    if operator in {"Gt", "Lt"}:
        return {"key": key, "operator": operator, "values": [random.choice(["0", "1", "3", "8"])]}
    return {"key": key, "operator": operator, "values": some(random, values, 2)}


def pod_affinity(random: Random) -> Json:
    """Return affinity or anti-affinity to pods, required or preferred, in one or two terms of each."""
    found: Json = {}
    for kind, chance in (("podAffinity", 0.5), ("podAntiAffinity", 0.6)):
        terms: Json = {}
        if random.random() < chance * 0.7:
            terms["requiredDuringSchedulingIgnoredDuringExecution"] = [pod_term(random) for _ in range(random.choice([1, 1, 2]))]
        if random.random() < chance:
            count = random.choice([1, 1, 2])
            weighted = [{"weight": random.choice([1, 10, 50, 100]), "podAffinityTerm": pod_term(random)} for _ in range(count)]
            terms["preferredDuringSchedulingIgnoredDuringExecution"] = weighted
        if terms:
            found[kind] = terms
    return {"spec": {"affinity": found}} if found else {}


def pod_term(random: Random) -> Json:
    term: Json = {"topologyKey": random.choice(TOPOLOGIES), "labelSelector": pod_selector(random)}
    chance = random.random()
    if chance < 0.2:
        term["namespaces"] = some(random, NAMESPACES, 2)
    elif chance < 0.4:
        term["namespaceSelector"] = random.choice(NAMESPACE_SELECTORS)
    if random.random() < 0.15 and not uses(term["labelSelector"], "version"):
        term[random.choice(["matchLabelKeys", "mismatchLabelKeys"])] = ["version"]
    return term


def pod_selector(random: Random) -> Json:
    """Return a selector of pods: labels, expressions, or everything."""
    chance = random.random()
    if chance < 0.1:
        return {}
    if chance < 0.6:
        return {"matchLabels": {"app": random.choice(APPS)}}
    operator = random.choice(["In", "NotIn", "Exists", "DoesNotExist"])
    expressions = [requirement(random, "app", operator, APPS)]
    if random.random() < 0.3:
        expressions.append(requirement(random, "version", random.choice(["Exists", "DoesNotExist", "NotIn"]), ("1", "2")))
    return {"matchExpressions": expressions}


def uses(selector: Json, key: str) -> bool:
    """Return whether a selector names this key: the API server refuses it in matchLabelKeys then."""
    return key in selector.get("matchLabels", {}) or any(each["key"] == key for each in selector.get("matchExpressions", ()))


# One of nothing but NotIn or DoesNotExist is left out: kube-scheduler then takes every namespace (docs/differences.md).
NAMESPACE_SELECTORS: tuple[Json, ...] = (
    {},
    {"matchLabels": {"team": TEAMS[0]}},
    {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "team", "operator": "In", "values": list(TEAMS)}]},
    {"matchLabels": {"team": "absent"}},
)
