"""Random nodes with Koordinator's annotations, of which some cannot be read."""

from __future__ import annotations

import json
from random import Random

from support.differential.choosing import Json, Part, by_chance, merged
from support.differential.koordinator.arguments import by_field, percentages
from support.differential.koordinator.vocabulary import AGGREGATION_TYPES, BATCH, DEPRECATED_BATCH_CPU, DURATIONS, GIB, GPU, MID

USAGE_THRESHOLDS = "scheduling.koordinator.sh/usage-thresholds"
RAW_ALLOCATABLE = "node.koordinator.sh/raw-allocatable"
RESERVATION = "node.koordinator.sh/reservation"

UNREADABLE_THRESHOLDS = (
    "",
    "{",
    "[]",
    "null",
    '"high"',
    "{}",
    '{"usageThresholds": {"cpu": "65"}}',
    '{"usageThresholds": {"cpu": 65.5}}',
    '{"usageThresholds": ["cpu"]}',
    '{"usageThresholds": {}, "aggregatedUsage": {"usageThresholds": {"cpu": 10}}}',  # without a type
    '{"aggregatedUsage": {"usageAggregationType": "p95"}}',  # without thresholds
    '{"aggregatedUsage": {"usageThresholds": {"cpu": 10}, "usageAggregationType": "p95", "usageAggregatedDuration": "5x"}}',
    '{"aggregatedUsage": {"usageThresholds": {"cpu": 10}, "usageAggregationType": "p95", "usageAggregatedDuration": 300}}',
)
ODD_THRESHOLDS = (
    '{"usageThresholds": {"cpu": 150, "memory": 2}}',
    '{"usageThresholds": {"cpu": -5}}',
    '{"usageThresholds": {"example.com/unknown": 1}}',
    '{"usageThresholds": {"cpu": 0, "memory": 0}}',
    '{"UsageThresholds": {"cpu": 1}, "PRODUSAGETHRESHOLDS": {"cpu": 2}}',  # Go's JSON takes keys in any case
    '{"usageThresholds": {"cpu": 40}, "unknown": 1}',
    '{"usageThresholds": {"cpu": 40}} ',
    '{"usageThresholds": {"cpu": 40}} {}',
    '{"usageThresholds": {"cpu": 4e1}}',
    '{"usageThresholds": {"cpu": 99999999999999999999}}',
    '{"usageThresholds": {"cpu": null, "memory": 40}}',
    '{"aggregatedUsage": {"usageThresholds": {"cpu": 10}, "usageAggregationType": "p95", "usageAggregatedDuration": "-5m"}}',
    '{"aggregatedUsage": {"usageThresholds": {"cpu": 10}, "usageAggregationType": "p95", "usageAggregatedDuration": "0.5h"}}',
    '{"aggregatedUsage": {"usageThresholds": {"cpu": 10}, "usageAggregationType": "avg", "usageAggregatedDuration": "300s"}}',
    '{"usageThresholds": null, "prodUsageThresholds": {"cpu": 1}}',
    '{"aggregatedUsage": {"usageThresholds": {"cpu": 10}, "usageAggregationType": "p42"}}',
    '{"aggregatedUsage": {"usageThresholds": {"cpu": 10}, "usageAggregationType": "p95", "usageAggregatedDuration": null}}',
)
RAW_AMOUNTS = (
    "",
    "{",
    "[]",
    "null",
    "{}",
    '{"cpu": "x"}',
    '{"cpu": null}',
    '{"cpu": ""}',
    '{"cpu": true}',
    '{"cpu": " 2"}',
    '{"cpu": "-2"}',
    '{"cpu": 2}',
    '{"cpu": 2.5}',
    '{"cpu": "3e3"}',
    '{"CPU": "2"}',
    '{"cpu": "0"}',
    '{"cpu": "6500m"}',
    '{"memory": "6Gi"}',
    '{"cpu": "2", "memory": "3000M"}',
    '{"example.com/gpu": "8", "kubernetes.io/batch-cpu": "900"}',
)
RESERVATIONS = (
    "{",
    '{"resources": {"cpu": "1"}}',
    '{"resources": {"cpu": "1500m", "memory": "1Gi"}}',
    '{"resources": {"memory": "1000Gi"}}',
    '{"reservedCPUs": "0-1"}',
    '{"resources": {"cpu": "3"}, "reservedCPUs": "0", "applyPolicy": "Default"}',
    '{"resources": {"cpu": "1"}, "applyPolicy": "ReservedCPUsOnly"}',
)


def node(random: Random, name: str) -> Json:
    """Return a node, as it is or as it is written anew."""
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}
    amounts = allocatable(random)
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return merged([body, {"status": status}, by_chance(random, ANNOTATIONS)])


def allocatable(random: Random) -> Json:
    amounts = {
        "cpu": random.choice(["8", "16", "16", "32", "7500m"]),
        "memory": str(random.choice([16, 16, 32, 64]) * GIB),
        "pods": random.choice(["110", "110", "110", "6"]),
    }
    if random.random() < 0.4:
        amounts["ephemeral-storage"] = random.choice(["10Gi", "100Gi"])
    if random.random() < 0.3:
        amounts[GPU] = random.choice(["0", "4", "8"])
    for cpu, memory in (BATCH, MID):
        if random.random() < 0.75:
            amounts |= {cpu: random.choice(["0", "6000", "12000"]), memory: random.choice(["4Gi", "24Gi"])}
    if BATCH[0] in amounts and random.random() < 0.15:
        amounts[DEPRECATED_BATCH_CPU] = amounts.pop(BATCH[0])
    return amounts


def annotated(key: str, value: str) -> Json:
    return {"metadata": {"annotations": {key: value}}}


def usage_thresholds(random: Random) -> Json:
    if random.random() < 0.5:
        return annotated(USAGE_THRESHOLDS, random.choice(UNREADABLE_THRESHOLDS + ODD_THRESHOLDS))
    groups = by_field(
        random,
        (
            (0.6, "usageThresholds", percentages),
            (0.4, "prodUsageThresholds", percentages),
            (0.4, "aggregatedUsage", aggregated_thresholds),
        ),
    )
    return annotated(USAGE_THRESHOLDS, json.dumps(groups))


def aggregated_thresholds(random: Random) -> Json:
    fields = {"usageThresholds": percentages(random), "usageAggregationType": random.choice(AGGREGATION_TYPES)}
    return fields | by_field(random, ((0.5, "usageAggregatedDuration", lambda random: random.choice(DURATIONS)),))


def raw_allocatable(random: Random) -> Json:
    return annotated(RAW_ALLOCATABLE, random.choice(RAW_AMOUNTS))


def without_reservation(body: Json) -> Json:
    """Return the node as it may be before the scheduler starts: the reference trims what it lists twice (differences.md)."""
    annotations = {key: value for key, value in body["metadata"].get("annotations", {}).items() if key != RESERVATION}
    return {**body, "metadata": {**body["metadata"], "annotations": annotations}}


def reservation(random: Random) -> Json:
    return annotated(RESERVATION, random.choice(RESERVATIONS))


ANNOTATIONS: tuple[tuple[float, Part], ...] = ((0.35, usage_thresholds), (0.3, raw_allocatable), (0.15, reservation))
