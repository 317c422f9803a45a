"""KubeSchedulerConfiguration, kubescheduler.config.k8s.io/v1, as Structs (framework.md §1.1).

Field names are the reference's in snake_case; a Struct's defaults are the reference's defaults. The same Structs hold a configuration while
it is read (a profile's `plugins` are then what the user wrote) and when it is complete (`plugins` merged with the defaults, `plugin_config`
typed, `points` filled in). A SchedulerConfiguration that `load_config` returned has been validated as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, dataclass_transform

import msgspec
from msgspec import Meta, field

from koordsched.api.meta import Int32, Int64
from koordsched.config.duration import Duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"

COMPUTED = Meta(extra={"computed": True})
"""Marks a field that is worked out and cannot stand in a file."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Config(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Base of everything that can be written in a configuration file: snake_case here, camelCase there."""


class PluginArgs(Config):
    """Base of a plugin's arguments."""

    def problems(self) -> Iterable[tuple[str, str]]:
        """Return (path within the arguments, problem) of what the plugin cannot work with; out-of-tree plugins override this."""
        return ()


class LeaderElection(Config):
    leader_elect: bool = True
    lease_duration: Duration = Duration(15)
    renew_deadline: Duration = Duration(10)
    retry_period: Duration = Duration(2)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(Config):
    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0  # requests a second; below 0: no limit
    burst: Int32 = 100


class PluginEntry(Config):
    """One entry of a plugin set."""

    name: str
    weight: Int32 = 0  # 0: not given


class PluginSet(Config):
    enabled: tuple[PluginEntry, ...] = ()
    disabled: tuple[PluginEntry, ...] = ()

    @property
    def disabled_names(self) -> frozenset[str]:
        return frozenset(plugin.name for plugin in self.disabled)


class Plugins(Config):
    """The plugin sets of a profile, one an extension point, and multiPoint."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()

    def at(self, point: str) -> PluginSet:
        """Return the set of a point, or of multiPoint, by its name in the file."""
        plugin_set: PluginSet = getattr(self, _ATTRIBUTES[point])
        return plugin_set

    @classmethod
    def from_sets(cls, sets: Mapping[str, PluginSet]) -> Plugins:
        """Make the plugins of sets by their names in the file."""
        return cls(**{attribute: sets[name] for name, attribute in _ATTRIBUTES.items()})

    def enabled_names(self) -> set[str]:
        """Return the names of all plugins enabled anywhere: the ones that are constructed."""
        return {plugin.name for point in _ATTRIBUTES for plugin in self.at(point).enabled}


_ATTRIBUTES = {info.encode_name: info.name for info in msgspec.structs.fields(Plugins)}
SETS = tuple(_ATTRIBUTES)
"""The names of all plugin sets in the file: the extension points, then multiPoint, which is no point but is spread over them."""


class PluginConfig(Config):
    """A plugin's arguments: while read, the plain value of the file; complete, a PluginArgs of the plugin's own class.

    An out-of-tree plugin without a registered class keeps the plain mapping.
    """

    name: str
    args: Any = None


class PluginRef(msgspec.Struct, frozen=True):
    """A plugin at an extension point. weight: what its score is multiplied by; 0 at any other point."""

    name: str
    weight: int = 0


class KubeSchedulerProfile(Config):
    """A scheduling profile.

    plugin_config: complete, one entry for every enabled plugin that has arguments, by name. points: the plugins of every extension point,
    in the order they run; every point has an entry.
    """

    scheduler_name: str = ""
    percentage_of_nodes_to_score: Int32 | None = None  # None: the configuration's
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()
    points: Annotated[dict[str, tuple[PluginRef, ...]], COMPUTED] = field(default_factory=dict)

    @property
    def args(self) -> dict[str, Any]:
        """The arguments of every enabled plugin that has any, by plugin name."""
        return {config.name: config.args for config in self.plugin_config}


class ExtenderTLSConfig(Config):
    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = field(default="", name="caFile")
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = field(default=b"", name="caData")


class ExtenderManagedResource(Config):
    name: str
    ignored_by_scheduler: bool = False


class ExtenderConfig(Config):
    """An HTTP extender (framework.md §8). http_timeout 0: 5 seconds."""

    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = Duration(0)
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class SchedulerConfiguration(Config):
    parallelism: Int32 = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: Int32 = 0  # 0: all nodes (framework.md §5.2)
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[ExtenderConfig, ...] = ()
    delay_cache_until_active: bool = False
