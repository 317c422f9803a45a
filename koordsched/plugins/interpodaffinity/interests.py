"""The interests of one profile: what a pod is signed with, and the compiled object that its signature stands for."""

from __future__ import annotations

from collections import OrderedDict
from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from koordsched._core.affinity import is_unique
from koordsched._core.change import Change
from koordsched._core.counts import Changes
from koordsched.framework.shape import ShapeKey
from koordsched.plugins.interpodaffinity.existing import existing_terms_of
from koordsched.plugins.interpodaffinity.interest import Interest

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.config.args import InterPodAffinityArgs
    from koordsched.plugins.interpodaffinity.interest import Signature
    from koordsched.plugins.interpodaffinity.namespaces import Namespaces

KEPT_INTERESTS = 1024  # each may keep counts, 4 bytes a row
KEPT_SHAPES = 4096


class Interests:
    """Compiles signatures; the ones used last are kept."""

    def __init__(self, cache: Cache, namespaces: Namespaces, args: InterPodAffinityArgs) -> None:
        self.cache = cache
        self.namespaces = namespaces
        self.args = args
        self.terms = existing_terms_of(cache)
        self.label_changes = Changes(cache.table, int(Change.LABELS))
        self.serials = count(1)
        self._unique: dict[int, bool] = {}  # by topology key, as long as no node's labels change
        self._unique_at = 0
        self._by_signature: OrderedDict[Signature, Interest] = OrderedDict()
        self._large: WeakKeyDictionary[ShapeKey, Interest] = WeakKeyDictionary()
        self._by_shape: dict[Hashable, Interest | None] = {}
        cache.signatures.call(lambda _: self._forget_shapes())
        cache.columns.call_when_renewed(self._renew)

    def _renew(self) -> None:
        """Forget everything that may hold ids of columns or values."""
        self._unique.clear()
        self._by_signature.clear()
        self._forget_shapes()

    def _forget_shapes(self) -> None:
        self._by_shape.clear()
        self._large.clear()

    def attribute(self, key: str) -> int:
        """Return the column of a topology key that some node has."""
        return self.cache.columns.labels[key].attribute

    def is_unique(self, attribute: int) -> bool:
        """Answer whether each value of a topology key is one node's own."""
        labels = self.label_changes.version()
        if labels != self._unique_at:
            self._unique_at = labels
            self._unique.clear()
        found = self._unique.get(attribute)
        if found is None:
            found = self._unique[attribute] = is_unique(self.cache.table, attribute)
        return found

    def sign(self, pod: PodInfo) -> Signature | None:
        """Return what is read of the pod: its terms, and its namespace with those of its labels that some known term reads.

        None when nothing can matter. A pod whose signature changes because more terms are known is signed again.
        """
        terms = self.terms
        affinity = terms.read(pod.pod) if pod.pod.spec.affinity is not None else None
        if affinity is None and not terms.matter:
            return None
        keys = terms.keys
        meta = pod.pod.metadata
        labels = [pair for pair in meta.labels.items() if pair[0] in keys]
        if affinity is None and not labels and not terms.wild:
            return None
        labels.sort()
        return affinity, meta.namespace, tuple(labels)

    def of(self, pod: PodInfo) -> Interest | None:
        """Return the pod's interest; None when it has none: no term of its own, and none can mean it."""
        shape = pod.shape
        if shape is None:
            return self._of_signature(self.sign(pod))
        if isinstance(shape, ShapeKey) and shape.is_large:
            large = self._large.get(shape)
            signature = self.sign(pod) if large is None else None
            if signature is not None:
                large = self._large[shape] = Interest(self, signature)
            return large
        try:
            return self._by_shape[shape]
        except KeyError:
            found = self._of_signature(self.sign(pod))
            if len(self._by_shape) >= KEPT_SHAPES:
                self._by_shape.clear()
            self._by_shape[shape] = found
            return found

    def _of_signature(self, signature: Signature | None) -> Interest | None:
        if signature is None:
            return None
        found = self._by_signature.get(signature)
        if found is None:
            if len(self._by_signature) >= KEPT_INTERESTS:
                self._by_signature.popitem(last=False)
                self._by_shape.clear()  # or they would keep it
            found = self._by_signature[signature] = Interest(self, signature)
        else:
            self._by_signature.move_to_end(signature)
        return found
