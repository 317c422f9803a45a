"""How alike namespaces are served: of what the pods of each ask for, how much went to pods that found a node.

A namespace is judged by its dominant resource (Ghodsi et al., "Dominant Resource Fairness", NSDI 2011): the one of which its pods ask for
the largest share of the cluster. One number sums them up, Jain's fairness index.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from koordsched.simulate.pod_history import summed
from koordsched.simulate.result import SHARE_DIGITS, Fairness, NamespaceSummary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class NamespaceCount:
    """Counts pods by namespace, one after the other."""

    def __init__(self) -> None:
        self._asked: dict[str, list[Mapping[str, int]]] = {}
        self._served: dict[str, list[Mapping[str, int]]] = {}

    def add(self, namespace: str, requests: Mapping[str, int], *, bound: bool) -> None:
        """Count a pod. requests: without `pods`, which is counted here."""
        for counted in (self._asked, self._served) if bound else (self._asked,):
            counted.setdefault(namespace, []).append(requests)

    def fairness(self, offered: Mapping[str, int]) -> Fairness | None:
        """Return how alike the namespaces are served, by name; None with fewer than two. offered: what all nodes together can give."""
        if len(self._asked) < 2:  # noqa: PLR2004  # one alone is served as it is
            return None
        found = [self._summary(namespace, offered) for namespace in sorted(self._asked)]
        return Fairness(index=round(jain_index([each.served for each in found]), SHARE_DIGITS), namespaces=found)

    def _summary(self, namespace: str, offered: Mapping[str, int]) -> NamespaceSummary:
        asked, served = _sums(self._asked[namespace]), _sums(self._served.get(namespace, ()))
        resource = max(sorted(asked), key=lambda name: asked[name] / offered[name] if offered.get(name) else 0.0)
        return NamespaceSummary(
            namespace=namespace,
            pods=asked["pods"],
            bound=served["pods"],
            pending=asked["pods"] - served["pods"],
            resource=resource,
            served=round(served[resource] / asked[resource], SHARE_DIGITS) if asked[resource] else 1.0,
        )


def _sums(requests: Sequence[Mapping[str, int]]) -> Counter[str]:
    sums = summed(requests)
    sums["pods"] = len(requests)
    return sums


def jain_index(shares: Sequence[float]) -> float:
    """Return (sum x)^2 / (n * sum x^2); 1.0 where all get nothing."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0
