"""Constraints for pods that have none: the configuration's, or the system's, over the pods that a pod belongs with.

`sign` groups pods by what they say of themselves (their controller). What Services and controllers select may change later, and differ
within such a group: the plugin's versions say that, since each selector has a `Spread` of its own.
Reference: plugins/podtopologyspread/common.go and plugin.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.core import TopologySpreadConstraint
from koordsched.plugins.podtopologyspread.belonging import CONTROLLERS, Belonging, controller_of
from koordsched.plugins.podtopologyspread.constraints import HARD, HONOR, HOSTNAME, SOFT, ZONE, Demand, constraint, demand, required_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from koordsched.api.core import Pod
    from koordsched.api.meta import ObjectMeta
    from koordsched.api.selectors import LabelSelectorMatcher
    from koordsched.config.args import PodTopologySpreadArgs
    from koordsched.framework.handle import Handle
    from koordsched.plugins.podtopologyspread.spread import Spread, Spreads

SYSTEM = "System"
SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)


class Defaults:
    """The default constraints of a profile. `concern` answers whether they may count anything for a pod, at the cost of two look-ups."""

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle, spreads: Spreads) -> None:
        self._system = args.defaulting_type == SYSTEM
        self._spreads = spreads
        written = SYSTEM_DEFAULTS if self._system else args.default_constraints
        self._hard = [each for each in written if each.when_unsatisfiable == HARD]
        self._soft = [each for each in written if each.when_unsatisfiable == SOFT]
        self._honors_taints = any(each.node_taints_policy == HONOR for each in written)
        self._belonging = Belonging(handle) if written else None
        self._last: tuple[Pod | None, int, Spread | None] = (None, 0, None)  # who was asked about, at which change, and the answer
        self.have_hard = bool(self._hard)
        self.concern: Callable[[ObjectMeta], bool] = self._belonging.concerns if self._belonging is not None else _nobody

    def sign(self, pod: Pod) -> Hashable:
        """Return what is read of a pod without constraints, if defaults are hard or `concern` it; None: nothing counts for it."""
        if self._belonging is None:
            return None
        meta, owner = pod.metadata, controller_of(pod.metadata)
        group = owner if owner is not None and owner[:2] in CONTROLLERS else self._belonging.selector(meta)
        labels = tuple(sorted(meta.labels.items())) if self.have_hard else ()
        return None if group is None and not labels else (meta.namespace, group, labels, self._place(pod))

    def spread(self, pod: Pod) -> Spread | None:
        """Return the spread of a pod without constraints, None when it belongs with no others. A cycle asks several times over."""
        if self._belonging is None or not self.concern(pod.metadata):
            return None
        last, changes, found = self._last
        if last is not pod or changes != self._belonging.changes:
            found = self._find(pod, self._belonging)
            self._last = pod, self._belonging.changes, found
        return found

    def _find(self, pod: Pod, belonging: Belonging) -> Spread | None:
        meta = pod.metadata
        selector = belonging.selector(meta)
        if selector is None:
            return None
        counts_itself = not self.have_hard or selector.matches(meta.labels)
        return self._spreads.get((meta.namespace, selector, counts_itself, self._place(pod)), lambda: self._demand(pod, selector))

    def _place(self, pod: Pod) -> Hashable:
        """Return what is read of where the pod may go."""
        spec = pod.spec
        if not spec.node_selector and spec.affinity is None and not self._honors_taints:
            return None
        return tuple(sorted(spec.node_selector.items())), required_nodes(pod), spec.tolerations if self._honors_taints else ()

    def _demand(self, pod: Pod, selector: LabelSelectorMatcher) -> Demand:
        meta = pod.metadata
        namespaces = frozenset({meta.namespace})
        hard = [constraint(each, namespaces, selector, meta.labels) for each in self._hard]
        soft = [constraint(each, namespaces, selector, meta.labels) for each in self._soft]
        return demand(pod, hard, soft, all_keys=not self._system)


def _nobody(_meta: ObjectMeta) -> bool:
    return False
