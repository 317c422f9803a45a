"""The few words that random clusters for Koordinator's plugins are made of."""

from __future__ import annotations

from support.differential.choosing import Json

GPU = "example.com/gpu"
BATCH = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")
DEPRECATED_BATCH_CPU = "koordinator.sh/batch-cpu"
MID = ("kubernetes.io/mid-cpu", "kubernetes.io/mid-memory")
RESOURCES = ("cpu", "memory", "ephemeral-storage", GPU, *BATCH, *MID)
AGGREGATION_TYPES = ("avg", "p50", "p90", "p95", "p99")
DURATIONS = ("0s", "5m", "10m0s", "30m")
GIB = 1 << 30
PRIORITIES = {
    "prod": 9000,
    "prod-top": 9999,
    "mid": 7500,
    "batch": 5000,
    "batch-top": 5999,
    "free": 3000,
    "between": 8500,  # in no class
    "low": 100,
}
PRIORITY_CLASSES: list[Json] = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in PRIORITIES.items()
]
PRIORITY_CLASS_LABELS = ("koord-prod", "koord-prod", "koord-mid", "koord-batch", "koord-batch", "koord-free", "gold", "")
QOS_LABELS = ("LSE", "LSR", "LS", "BE", "SYSTEM", "gold", "")
