"""The few words that random clusters and pods are made of."""

from __future__ import annotations

from support.differential.choosing import Json

ZONES = ("a", "b", "c")
DISKS = ("ssd", "hdd", "")
TIERS = ("1", "2", "5", "0", "9", "high")
GPU = "example.com/gpu"
HUGE = "hugepages-2Mi"
APPS = ("web", "db", "cache")
TEAMS = ("red", "blue")
NAMESPACES = ("default", "one", "two")
TAINTS: tuple[Json, ...] = (
    {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "db", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "db", "effect": "PreferNoSchedule"},
    {"key": "leaving", "effect": "NoExecute"},
    {"key": "slow", "value": "", "effect": "PreferNoSchedule"},
    {"key": "old", "value": "yes", "effect": "PreferNoSchedule"},
)
TOLERATIONS: tuple[Json, ...] = (
    {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"},
    {"key": "dedicated", "operator": "Exists"},
    {"key": "dedicated", "value": "db"},
    {"key": "leaving", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    {"key": "slow", "operator": "Exists", "effect": "PreferNoSchedule"},
    {"key": "old", "operator": "Equal", "value": "no"},
    {"operator": "Exists", "effect": "NoSchedule"},
    {"operator": "Exists"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
)
MIB = 1 << 20
# What a node reports of an image: all names that it has there, and its size. Sizes do not differ between nodes: kube-scheduler believes
# the node that it met first, which is another one at each start.
IMAGES: tuple[Json, ...] = (
    {"names": ["registry.example/app:1", "registry.example/app@sha256:0123"], "sizeBytes": 300 * MIB},
    {"names": ["registry.example/app:latest"], "sizeBytes": 1500 * MIB},
    {"names": ["db:2", "docker.io/library/db:2"], "sizeBytes": 60 * MIB},
    {"names": ["localhost:5000/tool:latest", "localhost:5000/tool:v3"], "sizeBytes": 5 * MIB},
)
# What a pod asks for: some mean a name above only after the tag is added.
ASKED_IMAGES = (
    "registry.example/app:1",
    "registry.example/app",
    "db:2",
    "docker.io/library/db:2",
    "localhost:5000/tool",
    "no-node/has:it",
)
