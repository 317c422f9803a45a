"""Random plugin arguments, all of them valid: what is not set has the default of the plugin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from support.differential.choosing import Json, some
from support.differential.koordinator.generated import arguments_of
from support.differential.koordinator.vocabulary import AGGREGATION_TYPES, DURATIONS, RESOURCES

Field = tuple[float, str, Callable[[Random], Any]]


def by_field(random: Random, fields: Sequence[Field]) -> Json:
    """Set each field whose chance comes up."""
    return {name: choose(random) for chance, name, choose in fields if random.random() < chance}


def percentages(random: Random) -> Json:
    """Return thresholds, of which 0 is none."""
    return {name: random.choice([0, 5, 30, 50, 50, 65, 70, 95, 100]) for name in resources(random)}


def resources(random: Random) -> list[str]:
    """Choose cpu, memory, or both, and sometimes others."""
    usual = some(random, ("cpu", "memory"), 2)
    return usual + (some(random, RESOURCES[2:], 2) if random.random() < 0.2 else [])


def factors(random: Random) -> Json:
    return {name: random.choice([1, 50, 70, 85, 100, 100]) for name in resources(random)}


def boolean(random: Random) -> bool:
    return random.random() < 0.5


def aggregated(random: Random) -> Json:
    return by_field(
        random,
        (
            (0.8, "usageThresholds", percentages),
            (0.8, "usageAggregationType", lambda random: random.choice(AGGREGATION_TYPES)),
            (0.5, "usageAggregatedDuration", lambda random: random.choice(DURATIONS)),
            (0.6, "scoreAggregationType", lambda random: random.choice(AGGREGATION_TYPES)),
            (0.5, "scoreAggregatedDuration", lambda random: random.choice(DURATIONS)),
        ),
    )


LOAD_AWARE: tuple[Field, ...] = (
    (0.4, "filterExpiredNodeMetrics", boolean),
    (0.4, "enableScheduleWhenNodeMetricsExpired", boolean),
    (0.5, "nodeMetricExpirationSeconds", lambda random: random.choice([120, 180, 600, 7200])),
    (0.5, "resourceWeights", lambda random: {name: random.choice([1, 1, 2, 7, 100]) for name in resources(random)}),
    (0.4, "dominantResourceWeight", lambda random: random.choice([0, 1, 5, 100])),
    (0.7, "usageThresholds", percentages),
    (0.4, "prodUsageThresholds", percentages),
    (0.4, "prodUsageIncludeSys", boolean),
    (0.5, "scoreAccordingProdUsage", boolean),
    (0.5, "estimatedScalingFactors", factors),
    (0.4, "estimatedSecondsAfterPodScheduled", lambda random: random.choice([0, 30, 300, 100_000])),
    (0.4, "estimatedSecondsAfterInitialized", lambda random: random.choice([0, 30, 300, 100_000])),
    (0.5, "allowCustomizeEstimation", boolean),
    (0.5, "aggregated", aggregated),
    (0.4, "supportedResources", lambda random: some(random, RESOURCES, 3)),
)


def load_aware(random: Random) -> Json:
    fields = by_field(random, LOAD_AWARE)
    weighted = fields.get("resourceWeights", {})
    if missing := [name for name in weighted if name not in fields.get("estimatedScalingFactors", ())]:  # each needs one
        fields["estimatedScalingFactors"] = fields.get("estimatedScalingFactors", {}) | dict.fromkeys(missing, random.choice([30, 100]))
    return arguments_of("LoadAwareScheduling", fields)


def fit_plus(random: Random) -> Json:
    strategies = ["LeastAllocated", "MostAllocated"]
    chosen = some(random, RESOURCES, 4)
    weights = {name: {"type": random.choice(strategies), "weight": random.choice([0, 1, 1, 2, 10])} for name in chosen}
    return arguments_of("NodeResourcesFitPlus", {"resources": weights})


def scarce(random: Random) -> Json:
    return arguments_of("ScarceResourceAvoidance", {"resources": some(random, RESOURCES, 4)})
