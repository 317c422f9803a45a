"""Hook plugins: out-of-tree code that takes part in the handling of quotas (elasticquota.md §13).

A distribution offers a factory under the entry-point group `koordsched.quota_hooks`; the entry's name is the factoryKey. ElasticQuotaArgs
name the hooks of a profile; each tree of quotas gets hooks of its own. A hook that raises is logged and left out of that step, but for
`check_pod`: what it raises there refuses the pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from koordsched.framework.handle import SettingsError
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koordsched.api.core import Pod
    from koordsched.api.koordinator.quota_definitions import QuotaDefinition
    from koordsched.api.koordinator.quotas import ElasticQuota
    from koordsched.api.podinfo import PodInfo
    from koordsched.config.koordinator_args import HookPluginConf
    from koordsched.plugins.elasticquota.manager import Quota, QuotaManager
    from koordsched.plugins.elasticquota.metrics import QuotaLatencies

log = get_logger(__name__)

HOOK_GROUP = "koordsched.quota_hooks"


class QuotaUpdate(NamedTuple):
    """What happens to a quota: it is made (old is None), changed, or removed (new is None). shared: of all hooks of this update."""

    old: QuotaDefinition | None
    new: QuotaDefinition | None
    obj: ElasticQuota
    shared: dict[str, Any]


class QuotaHook:
    """Base of hooks: each method does nothing."""

    def __init__(self, quotas: Mapping[str, Quota], key: str, args: str) -> None:
        """quotas: of the tree, by name, to read. args: factoryArgs as they stand in the configuration."""
        self.quotas = quotas
        self.key = key

    def is_quota_updated(self, old: Quota, new: QuotaDefinition, obj: ElasticQuota) -> bool:
        """Answer whether this hook wants to be called for an object whose definition of the quota has not changed."""
        return False

    def pre_quota_update(self, update: QuotaUpdate) -> None:
        """Called before a quota is made, changed or removed."""

    def post_quota_update(self, update: QuotaUpdate) -> None:
        """Called after a quota was made, changed or removed."""

    def on_pod_updated(self, quota: str, old: Pod | None, new: Pod | None) -> None:
        """Called when an assigned pod comes (old is None), changes, or goes (new is None)."""

    def update_quota_status(self, obj: ElasticQuota, annotations: Mapping[str, str]) -> Mapping[str, str] | None:
        """Return annotations to write beside those that are going to be written; None: no others."""
        return None

    def check_pod(self, quota: str, pod: Pod) -> str:
        """Return why the pod must not be scheduled in the quota; "" if it may."""
        return ""


def installed_factories() -> Mapping[str, Callable[[Mapping[str, Quota], str, str], QuotaHook]]:
    """Return what installed distributions offer, by factoryKey."""
    from importlib.metadata import entry_points  # noqa: PLC0415  # takes 15 ms, which only a search is to cost

    return {entry.name: entry.load() for entry in entry_points(group=HOOK_GROUP)}


class Hooks:
    """The hooks of all trees. SettingsError at `make` names all that cannot be made."""

    def __init__(self, configured: Sequence[HookPluginConf], latencies: QuotaLatencies) -> None:
        self._configured = configured
        self._latencies = latencies
        self._factories = installed_factories() if configured else {}
        self._by_tree: dict[str, list[QuotaHook]] = {}

    def __bool__(self) -> bool:
        return bool(self._configured)

    def make(self, tree_id: str, quotas: Mapping[str, Quota]) -> None:
        """Make the hooks of a tree."""
        made: list[QuotaHook] = []
        problems: list[str] = []
        for i, hook in enumerate(self._configured):
            if not hook.key:
                problems.append(f"failed to initialize index-{i} hook plugin: key is empty")
            elif not hook.factory_key:
                problems.append(f"failed to initialize hook plugin {hook.key}: factory key is empty")
            elif hook.factory_key not in self._factories:
                problems.append(f"failed to initialize hook plugin {hook.key}: factory {hook.factory_key} not found")
            else:
                try:
                    made.append(self._factories[hook.factory_key](quotas, hook.key, hook.factory_args))
                except Exception as error:  # noqa: BLE001  # code of others
                    problems.append(f"failed to initialize hook plugin {hook.key}: {error}")
        if problems:
            raise SettingsError(f"plugin ElasticQuota: {'; '.join(problems)}")
        self._by_tree[tree_id] = made

    def of(self, manager: QuotaManager) -> Sequence[QuotaHook]:
        return self._by_tree.get(manager.tree_id, ())

    def wants_update(self, quota: Quota, new: QuotaDefinition, obj: ElasticQuota) -> bool:
        called = [self._call(hook, "is_quota_updated", hook.is_quota_updated, quota, new, obj) for hook in self.of(quota.manager)]
        return any(called)

    def quota_updated(self, step: str, manager: QuotaManager, update: QuotaUpdate) -> None:
        """Call all hooks of the tree. step: pre_quota_update or post_quota_update."""
        for hook in self.of(manager):
            self._call(hook, step, getattr(hook, step), update)

    def pod_updated(self, quota: Quota, old: Pod | None, new: Pod | None) -> None:
        for hook in self.of(quota.manager):
            self._call(hook, "on_pod_update", hook.on_pod_updated, quota.name, old, new)

    def annotations(self, quota: Quota, obj: ElasticQuota, annotations: Mapping[str, str]) -> dict[str, str]:
        """Return what the hooks add to a quota's annotations."""
        found: dict[str, str] = {}
        for hook in self.of(quota.manager):
            found.update(self._call(hook, "update_quota_status", hook.update_quota_status, obj, {**annotations, **found}) or {})
        return found

    def refusal(self, quota: Quota, pod: PodInfo) -> tuple[str, str] | None:
        """Return the key of the first hook that refuses the pod, and why."""
        for hook in self.of(quota.manager):
            with self._latencies.of_hook(hook.key, "check_pod"):
                try:
                    text = hook.check_pod(quota.name, pod.pod)
                except Exception as error:
                    log.exception("a hook plugin failed", hook=hook.key, step="check_pod")
                    text = str(error) or repr(error)
            if text:
                return hook.key, text
        return None

    def _call(self, hook: QuotaHook, step: str, call: Callable[..., Any], *args: Any) -> Any:
        with self._latencies.of_hook(hook.key, step):
            try:
                return call(*args)
            except Exception:
                log.exception("a hook plugin failed", hook=hook.key, step=step)
                return None
