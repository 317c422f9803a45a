"""What Koordinator's chart v1.8.0 installs for its scheduler, put together from facts: names, labels, arguments and configured values.

It has no Service. Its definitions of custom resources are in `koordsched/crds`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import yaml

Json = dict[str, Any]
NAME = "koord-scheduler"
LABELS = {"koord-app": NAME}
CONFIG_MAP, CONFIG_KEY = "koord-scheduler-config", "koord-scheduler-config"
CONFIG_FOLDER, CONFIG_FILE = "/config", "koord-scheduler.config"
ARGS = "kubescheduler.config.k8s.io/v1"
RBAC = "rbac.authorization.k8s.io/v1"
READ = ["get", "list", "watch"]
UNSHAREABLE = ({"vendor": "huawei", "model": "Ascend-310P3-300I-DUO"},)


class ChartValues(NamedTuple):
    """The chart's documented values for the scheduler, by the names in `PATHS`, with their defaults."""

    namespace: str = "koordinator-system"
    image_host: str = "registry.example"
    image_pull_secrets: Sequence[Mapping[str, str]] = ()
    log_level: str = "4"
    replicas: int = 2
    image_repository: str = "koordinator-sh/koord-scheduler"
    image_tag: str = "v1.8.0"
    port: int = 10251
    feature_gates: str = ""
    job_preemption: bool = True
    unshareable: Sequence[Mapping[str, str]] = UNSHAREABLE
    resources: Mapping[str, Any] = {"limits": {"cpu": "1000m", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "256Mi"}}
    host_network: bool = False
    node_affinity: Mapping[str, Any] = {}
    node_selector: Mapping[str, str] = {}
    tolerations: Sequence[Mapping[str, str]] = ()
    monitor: bool = False


PATHS = {
    "namespace": "installation.namespace",
    "image_host": "imageRepositoryHost",
    "image_pull_secrets": "imagePullSecrets",
    "log_level": "scheduler.log.level",
    "replicas": "scheduler.replicas",
    "image_repository": "scheduler.image.repository",
    "image_tag": "scheduler.image.tag",
    "port": "scheduler.port",
    "feature_gates": "scheduler.featureGates",
    "job_preemption": "scheduler.enableJobPreemption",
    "unshareable": "scheduler.deviceShare.gpuShareUnsupportedModels",
    "resources": "scheduler.resources",
    "host_network": "scheduler.hostNetwork",
    "node_affinity": "scheduler.nodeAffinity",
    "node_selector": "scheduler.nodeSelector",
    "tolerations": "scheduler.tolerations",
    "monitor": "scheduler.monitorEnabled",
}
CHANGED: dict[str, Any] = {
    "namespace": "koord",
    "image_host": "images.example",
    "image_pull_secrets": [{"name": "pull"}],
    "log_level": "5",
    "replicas": 3,
    "image_repository": "own/scheduler",
    "image_tag": "v9",
    "port": 10351,
    "feature_gates": "MultiQuotaTree=true,CompatibleCSIStorageCapacity=true",
    "job_preemption": False,
    "unshareable": [{"vendor": "acme", "model": "M1"}],
    "resources": {"requests": {"cpu": "2", "memory": "2Gi"}},
    "host_network": True,
    "node_affinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["system"]}]}]
        }
    },
    "node_selector": {"pool": "system"},
    "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
    "monitor": True,
}
"""Another value of each."""


def objects(values: ChartValues) -> list[Json]:
    """Return all objects, in the order in which they can be created; a PodMonitor needs its definition."""
    return [*rights(values), config_map(values), deployment(values), *([pod_monitor(values)] if values.monitor else [])]


def deployment(values: ChartValues) -> Json:
    container = {
        "name": "scheduler",
        "image": f"{values.image_host}/{values.image_repository}:{values.image_tag}",
        "imagePullPolicy": "Always",
        "command": ["/koord-scheduler"],
        "args": [
            f"--port={values.port}",
            "--authentication-skip-lookup=true",
            f"--v={values.log_level}",
            f"--feature-gates={values.feature_gates}",
            f"--config={CONFIG_FOLDER}/{CONFIG_FILE}",
            "--enable-network-topology-manager=true",
        ],
        "ports": [{"containerPort": values.port, "name": "metrics", "protocol": "TCP"}],
        "readinessProbe": {"httpGet": {"path": "healthz", "port": values.port}},
        "resources": values.resources,
        "volumeMounts": [{"mountPath": CONFIG_FOLDER, "name": "koord-scheduler-config-volume"}],
    }
    apart = {"matchExpressions": [{"key": "koord-app", "operator": "In", "values": [NAME]}]}
    term = {"weight": 100, "podAffinityTerm": {"labelSelector": apart, "topologyKey": "kubernetes.io/hostname"}}
    affinity: Json = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    items = [{"key": CONFIG_KEY, "path": CONFIG_FILE}]
    volume = {"name": "koord-scheduler-config-volume", "configMap": {"name": CONFIG_MAP, "defaultMode": 420, "items": items}}
    pod: Json = {
        "containers": [container],
        "serviceAccountName": NAME,
        "hostNetwork": values.host_network,
        "terminationGracePeriodSeconds": 10,
        "volumes": [volume],
        "affinity": affinity,
    }
    if values.node_affinity:
        affinity["nodeAffinity"] = values.node_affinity
    for field, value in (
        ("imagePullSecrets", values.image_pull_secrets),
        ("nodeSelector", values.node_selector),
        ("tolerations", values.tolerations),
    ):
        if value:
            pod[field] = value
    spec = {
        "replicas": values.replicas,
        "selector": {"matchLabels": LABELS},
        "minReadySeconds": 3,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "100%"}},
        "template": {"metadata": {"labels": LABELS}, "spec": pod},
    }
    metadata = {"name": NAME, "namespace": values.namespace, "labels": LABELS}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def config_map(values: ChartValues) -> Json:
    metadata = {"name": CONFIG_MAP, "namespace": values.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {CONFIG_KEY: yaml.safe_dump(configuration(values))}}


def configuration(values: ChartValues) -> Json:
    """Return the KubeSchedulerConfiguration."""
    preemption = [] if values.job_preemption else ["DefaultPreemption"]
    weights = {"LoadAwareScheduling": 1, "NodeNUMAResource": 1, "DeviceShare": 1, "Reservation": 5000, "Coscheduling": 1}
    plugins = {
        "preEnqueue": _enabled("Coscheduling"),
        "queueSort": {**_enabled("PrioritySort"), **NONE_ELSE},
        "preFilter": _enabled("SchedulingHint", "Coscheduling", "Reservation", "NodeNUMAResource", "DeviceShare", "ElasticQuota"),
        "filter": _enabled("Reservation", "LoadAwareScheduling", "NodeNUMAResource", "DeviceShare"),
        "postFilter": {**_enabled("Reservation", "Coscheduling", "ElasticQuota", *preemption), **NONE_ELSE},
        "preScore": _enabled("Reservation", "Coscheduling"),
        "score": {"enabled": [{"name": name, "weight": weight} for name, weight in weights.items()]},
        "reserve": _enabled("Reservation", "LoadAwareScheduling", "NodeNUMAResource", "DeviceShare", "Coscheduling", "ElasticQuota"),
        "permit": _enabled("Coscheduling"),
        "preBind": _enabled("NodeNUMAResource", "DeviceShare", "Reservation", "Coscheduling", "DefaultPreBind"),
        "bind": {**_enabled("Reservation", "DefaultBinder"), **NONE_ELSE},
        "postBind": _enabled("Coscheduling"),
    }
    scored = ("cpu", "memory", "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")
    strategy = {"type": "LeastAllocated", "resources": [{"name": name, "weight": 1} for name in scored]}
    load = {
        "filterExpiredNodeMetrics": False,
        "nodeMetricExpirationSeconds": 300,
        "resourceWeights": {"cpu": 1, "memory": 1},
        "usageThresholds": {"cpu": 65, "memory": 95},
        "estimatedScalingFactors": {"cpu": 85, "memory": 70},
    }
    gangs: Json = {**({"enablePreemption": True} if values.job_preemption else {}), "awareNetworkTopology": True}
    args = [
        _args("NodeResourcesFit", scoringStrategy=strategy),
        _args("LoadAwareScheduling", **load),
        _args("ElasticQuota", quotaGroupNamespace=values.namespace),
        _args("Coscheduling", **gangs),
        _args("DeviceShare", gpuShareUnsupportedModels=[dict(model) for model in values.unshareable]),
    ]
    election = {"leaderElect": True, "resourceLock": "leases", "resourceName": NAME, "resourceNamespace": values.namespace}
    profile = {"schedulerName": NAME, "pluginConfig": args, "plugins": plugins}
    return {"apiVersion": ARGS, "kind": "KubeSchedulerConfiguration", "leaderElection": election, "profiles": [profile]}


NONE_ELSE = {"disabled": [{"name": "*"}]}


def _enabled(*names: str) -> Json:
    return {"enabled": [{"name": name} for name in names]}


def _args(plugin: str, **fields: Any) -> Json:
    return {"name": plugin, "args": {"apiVersion": ARGS, "kind": f"{plugin}Args", **fields}}


def rights(values: ChartValues) -> list[Json]:
    """Return the account, its role and the three bindings."""
    rules = [
        _rule("coordination.k8s.io", ["leases"], ["create", "get", "update"]),
        _rule("", ["pods"], ["patch", "update"]),
        _rule("", ["nodes"], ["patch"]),
        _rule("", ["configmaps"], READ),
        _rule("apiextensions.k8s.io", ["customresourcedefinitions"], ["get", "list", "patch", "update", "watch"]),
        _rule("storage.k8s.io", ["csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"], READ),
        {"apiGroups": KOORDINATORS_GROUPS, "resources": ["*"], "verbs": ["*"]},
        _rule("resource.k8s.io", ["resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses"], READ),
        _rule("resource.k8s.io", ["resourceclaims/status"], [*READ, "patch", "update"]),
    ]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": values.namespace}}
    role = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "koord-scheduler-role"}, "rules": rules}
    roles = {"-custom": "koord-scheduler-role", "": "system:kube-scheduler", "-volume": "system:volume-scheduler"}
    bindings = [_binding(f"koord-scheduler-rolebinding{suffix}", name, values.namespace) for suffix, name in roles.items()]
    return [account, role, *bindings]


KOORDINATORS_GROUPS = [
    "config.koordinator.sh",
    "slo.koordinator.sh",
    "scheduling.koordinator.sh",
    "topology.node.k8s.io",
    "scheduling.sigs.k8s.io",
]


def _rule(group: str, resources: list[str], verbs: list[str]) -> Json:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _binding(name: str, role: str, namespace: str) -> Json:
    return {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
    }


def pod_monitor(values: ChartValues) -> Json:
    spec = {
        "selector": {"matchLabels": LABELS},
        "namespaceSelector": {"matchNames": [values.namespace]},
        "podMetricsEndpoints": [{"interval": "30s", "path": "/metrics", "port": "metrics"}],
    }
    metadata = {"name": "koord-scheduler-metrics-podmonitor", "namespace": values.namespace, "labels": LABELS}
    return {"apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor", "metadata": metadata, "spec": spec}
