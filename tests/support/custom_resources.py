"""One object of each of Koordinator's kinds, with every field that its Struct holds: what the API server is sent, and its status."""

from __future__ import annotations

from typing import Any

from koordsched.api import kinds
from koordsched.api.kinds import Kind

Json = dict[str, Any]
TIME = "2026-01-02T03:04:05Z"
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "default", "uid": "u1", "resourceVersion": "7"}
CONDITION = {"type": "Scheduled", "status": "True", "reason": "Why", "message": "text", "lastProbeTime": TIME, "lastTransitionTime": TIME}
USAGE = {"resources": {"cpu": "2370m", "memory": "4Gi"}}
AGGREGATES = [{"duration": "5m0s", "usage": {"avg": USAGE, "p90": {"resources": {"cpu": "3"}}}}]
SELECTOR = {"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}
ATTEMPT = {
    "schedulable": True,
    "failedMessage": "no",
    "feasibleSchedulingResult": [{"namespace": "default", "name": "p", "uid": "u1", "nodeName": "n1"}],
    "nodeFailedDetails": [
        {"failedPlugin": "NodeResourcesFit", "reason": "Insufficient cpu", "preemptMightHelp": True, "failedNodes": ["n2"]}
    ],
}

EXAMPLES: dict[Kind, Json] = {
    kinds.DEVICE: {
        "metadata": {"name": "n1"},
        "spec": {
            "devices": [
                {
                    "type": "gpu",
                    "id": "GPU-1",
                    "minor": 0,
                    "moduleID": 3,
                    "health": True,
                    "labels": {"model": "a100"},
                    "resources": {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory": "80Gi"},
                    "topology": {"socketID": 0, "nodeID": 1, "pcieID": "2", "busID": "0000:02:00.0"},
                    "vfGroups": [{"labels": {"use": "storage"}, "vfs": [{"minor": 4, "busID": "0000:02:00.1"}]}],
                    "conditions": [{"type": "Healthy", "status": "True", "reason": "Ok", "message": "well", "lastTransitionTime": TIME}],
                }
            ]
        },
    },
    kinds.POD_GROUP: {
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 3, "scheduleTimeoutSeconds": 30},
        "status": {
            "phase": "Scheduling",
            "occupiedBy": "default/job",
            "scheduled": 1,
            "running": 2,
            "succeeded": 3,
            "failed": 4,
            "scheduleStartTime": TIME,
        },
    },
    kinds.ELASTIC_QUOTA: {
        "metadata": {"name": "q", "namespace": "default", "labels": {"quota.scheduling.koordinator.sh/is-parent": "false"}},
        "spec": {"min": {"cpu": "40", "memory": "80Gi"}, "max": {"cpu": 100, "memory": "200Gi"}},
        "status": {"used": {"cpu": "1500m"}},
    },
    kinds.ELASTIC_QUOTA_PROFILE: {
        "metadata": {"name": "tree", "namespace": "default"},
        "spec": {"quotaName": "root", "nodeSelector": SELECTOR, "quotaLabels": {"a": "b"}, "resourceRatio": "0.9"},
    },
    kinds.RESERVATION: {
        "metadata": {"name": "r"},
        "spec": {
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}], "priority": 9100},
            },
            "owners": [
                {"object": OWNER},
                {
                    "controller": {
                        "apiVersion": "apps/v1",
                        "kind": "ReplicaSet",
                        "name": "rs",
                        "uid": "u2",
                        "namespace": "default",
                        "controller": True,
                        "blockOwnerDeletion": False,
                    },
                    "labelSelector": SELECTOR,
                },
            ],
            "ttl": "1h",
            "expires": TIME,
            "allocateOnce": False,
            "allocatePolicy": "Restricted",
            "preAllocation": True,
            "preAllocationPolicy": {"mode": "Cluster", "enableMultiple": True},
            "unschedulable": True,
            "taints": [{"key": "k", "effect": "NoSchedule", "value": "v", "timeAdded": TIME}],
        },
        "status": {
            "phase": "Available",
            "nodeName": "n1",
            "allocatable": {"cpu": "2"},
            "allocated": {"cpu": "500m"},
            "conditions": [CONDITION],
            "currentOwners": [OWNER],
        },
    },
    kinds.POD_MIGRATION_JOB: {
        "metadata": {"name": "m"},
        "spec": {
            "podRef": OWNER,
            "paused": True,
            "mode": "ReservationFirst",
            "ttl": "5m",
            "deleteOptions": {
                "gracePeriodSeconds": 30,
                "preconditions": {"uid": "u1", "resourceVersion": "7"},
                "propagationPolicy": "Background",
            },
            "reservationOptions": {"reservationRef": {"name": "r"}, "template": {"spec": {"ttl": "1h"}}},
        },
        "status": {
            "phase": "Running",
            "status": "Evicting",
            "reason": "Why",
            "message": "text",
            "nodeName": "n1",
            "podRef": OWNER,
            "conditions": [CONDITION],
            "preemptedPodsRef": [OWNER],
            "preemptedPodsReservation": [
                {
                    "namespace": "default",
                    "name": "x",
                    "nodeName": "n2",
                    "phase": "Available",
                    "preemptedPodRef": OWNER,
                    "podsRef": [OWNER],
                }
            ],
        },
    },
    kinds.CLUSTER_NETWORK_TOPOLOGY: {
        "metadata": {"name": "default"},
        "spec": {
            "networkTopologySpec": [
                {"topologyLayer": "SpineLayer", "parentTopologyLayer": "ClusterTopologyLayer", "labelKey": ["spine", "spine-old"]},
            ]
        },
        "status": {
            "detailStatus": [
                {
                    "topologyInfo": {"topologyLayer": "SpineLayer", "topologyName": "s1"},
                    "parentTopologyInfo": {"topologyLayer": "ClusterTopologyLayer", "topologyName": ""},
                    "childTopologyLayer": "BlockLayer",
                    "childTopologyNames": ["b1", "b2"],
                    "nodeNum": 8,
                }
            ]
        },
    },
    kinds.NODE_METRIC: {
        "metadata": {"name": "n1"},
        "spec": {
            "metricCollectPolicy": {
                "aggregateDurationSeconds": 300,
                "reportIntervalSeconds": 60,
                "nodeAggregatePolicy": {"durations": ["5m", "10m"]},
                "nodeMemoryCollectPolicy": "usageWithPageCache",
            }
        },
        "status": {
            "updateTime": TIME,
            "nodeMetric": {
                "nodeUsage": USAGE,
                "aggregatedNodeUsages": AGGREGATES,
                "systemUsage": {"resources": {"cpu": "100m"}},
                "aggregatedSystemUsages": AGGREGATES,
            },
            "podsMetric": [{"namespace": "default", "name": "p", "priority": "koord-prod", "qos": "LS", "podUsage": USAGE}],
        },
    },
    kinds.NODE_SLO: {
        "metadata": {"name": "n1"},
        "spec": {
            "resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressThresholdPercent": 65},
            "resourceQOSStrategy": {"lsrClass": {"cpuQOS": {"enable": True}}},
            "cpuBurstStrategy": {"policy": "auto"},
            "systemStrategy": {"watermarkScaleFactor": 150},
            "extensions": {"any": [1, "two"]},
            "hostApplications": [{"name": "nginx", "priority": "koord-prod", "qos": "LS"}],
        },
    },
    kinds.SCHEDULE_EXPLANATION: {
        "metadata": {"name": "why", "namespace": "default"},
        "spec": {"questionObjectKey": "default/p", "questionObjectTemplate": {"spec": {}}, "ttl": "1h"},
        "status": {
            "schedulable": True,
            "schedulableAfterPreemption": True,
            "failedMessage": "no",
            "lastUpdateTime": TIME,
            "detailedExplanation": [
                {
                    "topologyDomain": "s1",
                    "schedulable": True,
                    "schedulableAfterPreemption": True,
                    "failedMessage": "no",
                    "scheduleExplanation": ATTEMPT,
                    "nodePossibleVictims": [
                        {
                            "nodeName": "n2",
                            "possibleVictims": [{"namespace": "default", "name": "v", "uid": "u3", "isNominatedPod": True}],
                        }
                    ],
                    "preemptExplanation": ATTEMPT,
                }
            ],
        },
    },
    kinds.RECOMMENDATION: {
        "metadata": {"name": "rec", "namespace": "default"},
        "spec": {
            "target": {
                "type": "workload",
                "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                "podSelector": SELECTOR,
            }
        },
        "status": {
            "updateTime": TIME,
            "podStatus": {"containerStatuses": [{"containerName": "main", "resources": {"cpu": "1", "memory": "1Gi"}}]},
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "Why",
                    "message": "text",
                    "lastTransitionTime": TIME,
                    "observedGeneration": 2,
                }
            ],
        },
    },
}


def example(kind: Kind) -> Json:
    """Return the kind's object with apiVersion and kind."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **EXAMPLES[kind]}


def reservation(**spec: Any) -> Json:
    """Return what is sent of a Reservation, which has an owner and a template unless the fields say otherwise."""
    fields = {"owners": [{"object": {"name": "p"}}], "template": {}, **spec}
    return {"metadata": {"name": "x"}, "spec": {name: value for name, value in fields.items() if value is not ...}}


def device(**fields: Any) -> Json:
    return {"metadata": {"name": "x"}, "spec": {"devices": [{"health": True, **fields}]}}


def quota(**fields: Any) -> Json:
    return {"metadata": {"name": "x", "namespace": "default"}, **fields}


CONDITION_OF_DEVICE = {"type": "Healthy", "status": "True", "reason": "Ok", "message": "", "lastTransitionTime": TIME}

REFUSED: dict[str, tuple[Kind, Json]] = {
    "a field is missing": (kinds.RESERVATION, reservation(owners=...)),
    "fields are missing": (kinds.ELASTIC_QUOTA_PROFILE, quota(spec={})),
    "a list is too short": (kinds.RESERVATION, reservation(owners=[])),
    "an item says nothing": (kinds.RESERVATION, reservation(owners=[{}])),
    "not one of the values": (kinds.RESERVATION, reservation(allocatePolicy="Sometimes")),
    "not one of the values, deep": (kinds.RESERVATION, reservation(preAllocationPolicy={"mode": "None"})),
    "a text for a number": (kinds.POD_GROUP, quota(spec={"minMember": "3"})),
    "a fraction for a number": (kinds.POD_GROUP, quota(spec={"minMember": 1.5})),
    "a number for a text": (kinds.RESERVATION, reservation(ttl=5)),
    "a list for an object": (kinds.ELASTIC_QUOTA, quota(spec={"min": ["cpu"]})),
    "an object for a list": (kinds.DEVICE, {"metadata": {"name": "x"}, "spec": {"devices": {"a": 1}}}),
    "a text for true": (kinds.RESERVATION, reservation(unschedulable="yes")),
    "no quantity": (kinds.ELASTIC_QUOTA, quota(spec={"min": {"cpu": "much"}})),
    "true for a quantity": (kinds.ELASTIC_QUOTA, quota(spec={"min": {"cpu": True}})),
    "a fraction for a quantity": (kinds.ELASTIC_QUOTA, quota(spec={"min": {"cpu": 1.5}})),
    "no time": (kinds.RESERVATION, reservation(expires="tomorrow")),
    "a text that is too short": (kinds.DEVICE, device(conditions=[{**CONDITION_OF_DEVICE, "reason": ""}])),
    "a text that is too long": (kinds.DEVICE, device(conditions=[{**CONDITION_OF_DEVICE, "type": "x" * 317}])),
    "less than the minimum": (kinds.DEVICE, device(conditions=[{**CONDITION_OF_DEVICE, "observedGeneration": -1}])),
    "not one of the statuses": (kinds.DEVICE, device(conditions=[{**CONDITION_OF_DEVICE, "status": "true"}])),
    "a null among the items": (kinds.NODE_METRIC, {
        "metadata": {"name": "x"},
        "spec": {"metricCollectPolicy": {"nodeAggregatePolicy": {"durations": ["5m", None]}}},
    }),
    "a whole specification that is none": (kinds.POD_GROUP, quota(spec="none")),
    "two mistakes": (kinds.DEVICE, device(minor="0", topology={"socketID": 0, "nodeID": 0})),
    "a status without a resource of its own": (kinds.POD_GROUP, quota(status={"scheduled": "2"})),
    "a topology without policies": (kinds.NODE_RESOURCE_TOPOLOGY, {"metadata": {"name": "x"}, "zones": []}),
}  # fmt: skip
"""What an API server refuses for what the definitions say, by why."""

COMPLETED: dict[str, tuple[Kind, Json]] = {
    "defaults of a Reservation": (kinds.RESERVATION, reservation()),
    "defaults in a given part": (kinds.RESERVATION, reservation(preAllocationPolicy={})),
    "a null where a default is": (kinds.RESERVATION, reservation(ttl=None, allocateOnce=None, expires=None)),
    "an unknown field": (kinds.RESERVATION, {**reservation(colour="red"), "more": {"a": 1}}),
    "nulls and unknown fields where anything is kept": (
        kinds.RESERVATION,
        reservation(template={"metadata": {"labels": {"a": "b"}}, "spec": {"containers": None, "anything": {"deep": None}}}),
    ),
    "a device without health": (kinds.DEVICE, {"metadata": {"name": "x"}, "spec": {"devices": [{"type": "gpu", "minor": None}]}}),
    "nulls in maps": (kinds.ELASTIC_QUOTA, quota(spec={"min": {"cpu": None, "memory": 5}, "max": None})),
    "a status that is nothing of its own": (kinds.ELASTIC_QUOTA, quota(spec={}, status={"used": {"cpu": "1"}, "free": 1})),
    "a status with a resource of its own": (kinds.NODE_METRIC, {"metadata": {"name": "x"}, "spec": {}, "status": {"updateTime": TIME}}),
    "an object without fields": (kinds.ELASTIC_QUOTA_PROFILE, quota(spec={"quotaName": "q", "nodeSelector": {}}, status={"a": 1})),
    "whole numbers with a point": (kinds.POD_GROUP, quota(spec={"minMember": 3.0})),
    "strategies of any kind": (kinds.NODE_SLO, {"metadata": {"name": "x"}, "spec": {"extensions": {"a": [1, None]}, "other": 1}}),
    "an explanation": (kinds.SCHEDULE_EXPLANATION, quota(spec={})),
    "no specification": (kinds.RECOMMENDATION, quota()),
}
"""What an API server takes, but not as it was sent, by why."""
