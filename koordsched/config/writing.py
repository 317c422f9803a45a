"""A complete configuration as the YAML that `--write-config-to` writes: the reference's fields, values and order (framework.md §1.1).

Go leaves an empty field out unless its type says otherwise; ALWAYS lists, by class, the fields that are written even when empty. Keys are
sorted, lists stand at their key's column, and a text that would read back as something else is in double quotes, as Go's encoder does.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import lru_cache, singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from koordsched.api.core import NodeSelector, PreferredSchedulingTerm, TopologySpreadConstraint
from koordsched.api.meta import LabelSelectorRequirement
from koordsched.config import args, koordinator_args, types
from koordsched.config.duration import Duration
from koordsched.config.errors import ConfigError, ConfigMistake
from koordsched.config.types import API_VERSION, COMPUTED, KIND, PluginArgs, PluginConfig, SchedulerConfiguration
from koordsched.yamltext.building import resolve
from koordsched.yamltext.documents import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping


EVERY_FIELD = frozenset({"*"})

ALWAYS: Mapping[type[msgspec.Struct], frozenset[str]] = {
    types.SchedulerConfiguration: frozenset(
        {
            "parallelism",
            "leaderElection",
            "clientConnection",
            "enableProfiling",
            "enableContentionProfiling",
            "percentageOfNodesToScore",
            "podInitialBackoffSeconds",
            "podMaxBackoffSeconds",
        }
    ),
    types.LeaderElection: EVERY_FIELD,
    types.ClientConnection: EVERY_FIELD,
    types.KubeSchedulerProfile: frozenset({"plugins", "schedulerName"}),
    types.Plugins: EVERY_FIELD,
    types.PluginEntry: EVERY_FIELD,
    types.PluginConfig: frozenset({"name"}),
    types.ExtenderConfig: frozenset({"urlPrefix", "httpTimeout"}),
    types.ExtenderManagedResource: frozenset({"name"}),
    args.DefaultPreemptionArgs: EVERY_FIELD,
    args.InterPodAffinityArgs: EVERY_FIELD,
    args.NodeResourcesFitArgs: frozenset({"scoringStrategy"}),
    args.ResourceSpec: frozenset({"name"}),
    args.UtilizationShapePoint: EVERY_FIELD,
    args.VolumeBindingArgs: frozenset({"bindTimeoutSeconds"}),
    args.DynamicResourcesArgs: frozenset({"filterTimeout"}),
    koordinator_args.LoadAwareSchedulingArgs: frozenset(
        {
            "filterExpiredNodeMetrics",
            "nodeMetricExpirationSeconds",
            "enableScheduleWhenNodeMetricsExpired",
            "scoreAccordingProdUsage",
        }
    ),
    koordinator_args.LoadAwareSchedulingAggregatedArgs: frozenset({"usageAggregatedDuration", "scoreAggregatedDuration"}),
    koordinator_args.NodeNUMAResourceArgs: frozenset({"defaultCPUBindPolicy", "scoringStrategy", "numaScoringStrategy"}),
    koordinator_args.DeviceShareArgs: frozenset({"scoringStrategy", "gpuSharedResourceTemplatesConfig"}),
    koordinator_args.GPUShareUnsupportedModel: EVERY_FIELD,
    koordinator_args.CoschedulingArgs: EVERY_FIELD,
    koordinator_args.ElasticQuotaArgs: frozenset(
        {
            "delayEvictTime",
            "revokePodInterval",
            "monitorAllQuotas",
            "enableCheckParentQuota",
            "enableRuntimeQuota",
            "enableMinQuotaScale",
            "disableDefaultQuotaPreemption",
            "enableQueueHint",
            "quotaSnapshotUpdateInterval",
        }
    ),
    koordinator_args.ReservationArgs: frozenset(
        {"enablePreemption", "minCandidateNodesPercentage", "minCandidateNodesAbsolute", "controllerWorkers"}
    ),
    koordinator_args.ResourcesType: EVERY_FIELD,
    koordinator_args.NodeResourcesFitPlusArgs: EVERY_FIELD,
    koordinator_args.SchedulingHintArgs: EVERY_FIELD,
    NodeSelector: EVERY_FIELD,
    PreferredSchedulingTerm: EVERY_FIELD,
    LabelSelectorRequirement: frozenset({"key", "operator"}),
    TopologySpreadConstraint: frozenset({"maxSkew", "topologyKey", "whenUnsatisfiable"}),
}


DEFAULTED_LATE = frozenset({koordinator_args.PreAllocationConfig})
"""Classes whose defaults the reference fills in while it builds the plugin, so that they are not written."""


class _Dumper(yaml.CSafeDumper):
    """PyYAML's emitter without anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (the signature is PyYAML's)
        return True


def _represent_text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if resolve(text) == text else '"')


_Dumper.add_representer(str, _represent_text)


def dump_config(config: SchedulerConfiguration) -> str:
    """Return the configuration as block-style YAML, in the order of its fields."""
    body = {"apiVersion": API_VERSION, "kind": KIND, **plain(config)}
    return yaml.dump(body, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=2**31 - 1)


def write_config(config: SchedulerConfiguration, path: Path | str) -> None:
    """Write the configuration to a file; ConfigError when that cannot be."""
    try:
        Path(path).write_text(dump_config(config), encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError([ConfigMistake(ROOT, f"cannot be written: {reason}", str(path))]) from None


@singledispatch
def plain(value: Any) -> Any:
    """Turn Structs into what their text means; texts, numbers and None stand for themselves."""
    return value


@plain.register
def _plain_duration(value: Duration) -> str:
    return value.text


@plain.register
def _plain_number(value: float) -> float | int:
    return int(value) if value.is_integer() else value


@plain.register
def _plain_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


@plain.register(dict)
def _plain_map(value: dict[str, Any]) -> dict[str, Any]:
    return {key: plain(item) for key, item in value.items()}


@plain.register(tuple)
@plain.register(list)
def _plain_list(value: list[Any] | tuple[Any, ...]) -> list[Any]:
    return [plain(item) for item in value]


@plain.register
def _plain_struct(value: msgspec.Struct) -> dict[str, Any]:
    always = ALWAYS.get(type(value), frozenset())
    written = {}
    for info in _written_fields(type(value)):
        item = getattr(value, info.name)
        if always is EVERY_FIELD or info.encode_name in always or not _is_empty(item, info, value):
            written[info.encode_name] = plain(item)
    return written


@lru_cache(maxsize=256)
def _written_fields(cls: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return tuple(info for info in msgspec.structs.fields(cls) if COMPUTED not in getattr(info.type, "__metadata__", ()))


def _is_empty(item: Any, info: msgspec.structs.FieldInfo, owner: msgspec.Struct) -> bool:
    """Whether Go would leave the field out: a nil pointer, a zero, or a block that was not given."""
    if info.default is None:
        return item is None
    if isinstance(item, msgspec.Struct) or type(owner) in DEFAULTED_LATE:
        return bool(item == info.default)
    return item in ("", 0, (), {}, b"")


@plain.register
def _plain_plugin_config(config: PluginConfig) -> dict[str, Any]:
    if not isinstance(config.args, PluginArgs):
        return {"name": config.name} | ({"args": config.args} if config.args is not None else {})
    header = {"apiVersion": API_VERSION, "kind": f"{config.name}Args"}
    return {"name": config.name, "args": {**header, **plain(config.args)}}
