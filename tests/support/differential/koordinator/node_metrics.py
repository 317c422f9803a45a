"""Random NodeMetrics: what a node and its pods use, as koordlet reports it, also long ago, ahead of time, in part or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from koordsched.api.quantity import milli_value, value
from support.differential.choosing import Json, by_chance, merged, some
from support.differential.koordinator.moments import moment
from support.differential.koordinator.vocabulary import AGGREGATION_TYPES

UPDATED = (*[-20] * 6, *[-30] * 3, -240, -240, -900, -5000, -8000, 3600)
"""Seconds. None comes to an expiry that `arguments` chooses within the minutes that a recording may take."""


def node_metric(random: Random, node: Json, pods: Sequence[tuple[str, str]]) -> Json:
    """Report on the node, and on some of these pods (namespaces and names), wherever they are."""
    metadata = {"name": node["metadata"]["name"]}
    spec = {"metricCollectPolicy": {"reportIntervalSeconds": random.choice([0, 10, 60, 60, 300])}} if random.random() < 0.7 else {}
    head = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": metadata, "spec": spec}
    if random.random() < 0.06:
        return head
    status: Json = {}
    if random.random() < 0.95:
        status["updateTime"] = moment(random.choice(UPDATED))
    if random.random() < 0.94:
        status["nodeMetric"] = node_usage(random, node)
    if pods and random.random() < 0.85:
        named = some(random, pods, len(pods))
        status["podsMetric"] = [pod_usage(random, *pod) for pod in (named if random.random() < 0.9 else named + named[:2])]
        for first, again in zip(status["podsMetric"], status["podsMetric"][len(named) :], strict=False):
            again["priority"] = first.get("priority", "")  # of two classes each counts for something else there (differences.md)
    return {**head, "status": status}


def node_usage(random: Random, node: Json) -> Json:
    return merged(
        [
            {"nodeUsage": used(random, node, 110)} if random.random() < 0.95 else {},
            by_chance(
                random,
                (
                    (0.7, lambda random: {"aggregatedNodeUsages": aggregated_usages(random, node)}),
                    (0.5, lambda random: {"systemUsage": used(random, node, 20)}),
                ),
            ),
        ]
    )


def aggregated_usages(random: Random, node: Json) -> list[Json]:
    """Report several durations, some of them without data, and maybe one twice."""
    found = []
    for duration in some(random, ("5m0s", "10m0s", "30m0s", "5m0s", "0s"), 4):
        usage = {each: used(random, node, 110) if random.random() < 0.85 else {} for each in some(random, AGGREGATION_TYPES, 5)}
        found.append({"duration": duration, "usage": usage} if random.random() < 0.95 else {"usage": usage})
    return found


def used(random: Random, node: Json, most: int) -> Json:
    """Use up to `most` percent of what the node has, in steps of half a percent, so that rounding matters; rarely an odd amount."""
    offered = node["status"]["allocatable"]
    amounts: Json = {"cpu": f"{milli_value(offered['cpu']) * random.randint(0, 2 * most) // 200}m"}
    amounts["memory"] = str(value(offered["memory"]) * random.randint(0, 2 * most) // 200)
    for name in [each for each in offered if each not in {"cpu", "memory", "pods"}]:
        if random.random() < 0.2:
            amounts[name] = str(value(offered[name]) * random.randint(0, most) // 100)
    if random.random() < 0.08:
        del amounts[random.choice(["cpu", "memory"])]
    if random.random() < 0.04:
        amounts["cpu"] = random.choice(["0", 1, "1n", "1500u", "0.5", "1e3", "1M"])
    return {"resources": dict(sorted(amounts.items()))}


def pod_usage(random: Random, namespace: str, name: str) -> Json:
    amounts: Json = {"cpu": f"{random.choice([0, 10, 100, 300, 900, 2500])}m", "memory": f"{random.choice([0, 10, 200, 700, 3000])}Mi"}
    if random.random() < 0.1:
        del amounts[random.choice(["cpu", "memory"])]
    body: Json = {"namespace": namespace, "name": name, "podUsage": {"resources": amounts} if random.random() < 0.93 else {}}
    if random.random() < 0.8:
        body["priority"] = random.choice(["koord-prod", "koord-prod", "koord-batch", "koord-mid", ""])
    if random.random() < 0.3:
        body["qos"] = random.choice(["LS", "BE"])
    return body
