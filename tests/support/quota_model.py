"""What quotas ask for, use and may use, written down as elasticquota.md §5 and §6 say it, from objects alone.

Slow and plain: everything is worked out anew at each question, in exact integers and in Python's floats, which are IEEE doubles. Nothing of
the plugin or of its kernel is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ROOT, SYSTEM, DEFAULT = "root", "system", "default"
BUILT_IN = frozenset({SYSTEM, DEFAULT})
Amounts = Mapping[str, int]
"""In nano-units, by resource."""

LARGEST = 2**63 - 1


@dataclass
class ModelQuota:
    """parent "": none that exists."""

    parent: str
    max: Amounts = field(default_factory=dict)
    min: Amounts = field(default_factory=dict)
    weight: Amounts | None = None  # None: max
    lends: bool = True


@dataclass
class ModelPod:
    quota: str
    requests: Amounts
    assigned: bool = False
    fixed: bool = False


@dataclass
class QuotaModel:
    """The quotas but the root, the pods and what there is."""

    quotas: dict[str, ModelQuota] = field(default_factory=dict)
    pods: dict[str, ModelPod] = field(default_factory=dict)
    total: dict[str, int] = field(default_factory=dict)
    scales_min: bool = True
    guarantees: bool = False
    built_ins_compete: bool = False
    whole_devices: frozenset[str] = frozenset()
    """Resources of which exactly what is left is shared out: rounded down, then one more to the largest remainders, ties by name."""

    def children(self, name: str) -> list[str]:
        return sorted(child for child, quota in self.quotas.items() if quota.parent == name)

    # Sums

    def own(self, name: str, *, assigned: bool = False, fixed: bool = False) -> dict[str, int]:
        """Sum up the quota's own pods, of the resources that its max names."""
        named = self.quotas[name].max if name in self.quotas else {}
        found: dict[str, int] = {}
        for pod in self.pods.values():
            if pod.quota == name and (pod.assigned or not assigned) and (pod.fixed or not fixed):
                for resource, amount in pod.requests.items():
                    if resource in named:
                        found[resource] = found.get(resource, 0) + amount
        return found

    def used(self, name: str, *, fixed: bool = False) -> dict[str, int]:
        return plus(self.own(name, assigned=True, fixed=fixed), *[self.used(child, fixed=fixed) for child in self.children(name)])

    def fixed_request(self, name: str) -> dict[str, int]:
        return plus(self.own(name, fixed=True), *[self.fixed_request(child) for child in self.children(name)])

    def child_request(self, name: str) -> dict[str, int]:
        return plus(self.own(name), *[self.limited(child) for child in self.children(name)])

    def request(self, name: str) -> dict[str, int]:
        found = self.child_request(name)
        if name != ROOT and not self.quotas[name].lends:
            for resource, amount in self.quotas[name].min.items():
                found[resource] = max(found.get(resource, 0), amount)
        return found

    def limited(self, name: str) -> dict[str, int]:
        most = self.quotas[name].max if name != ROOT else {}
        return {resource: min(amount, most.get(resource, amount)) for resource, amount in self.request(name).items()}

    def allocated(self, name: str) -> dict[str, int]:
        return plus(self.own(name, assigned=True), *[self.guaranteed(child) for child in self.children(name)])

    def guaranteed(self, name: str) -> dict[str, int]:
        found = dict(self.allocated(name))
        for resource, amount in self.quotas[name].min.items():
            found[resource] = max(found.get(resource, 0), amount)
        return found

    # Runtimes

    def runtimes(self) -> dict[str, dict[str, int]]:
        """Return the runtime of every quota, in whole numbers by resource."""
        found: dict[str, dict[str, int]] = {}
        self._share(ROOT, None, found)
        for name, quota in self.quotas.items():
            if not quota.parent:
                asked = self.limited(name)
                found[name] = {
                    resource: min(whole(asked.get(resource, 0), resource), whole(quota.min.get(resource, 0), resource))
                    for resource in quota.max
                }
                self._share(name, found[name], found)
        return found

    def _share(self, name: str, total: dict[str, int] | None, found: dict[str, dict[str, int]]) -> None:
        """total: the quota's runtime; None: it is the root."""
        children = self.children(name)
        for child in children:
            if child not in BUILT_IN:
                found[child] = {}
        keys = set(self.quotas[name].max) if name != ROOT else set().union(*[q.max for n, q in self.quotas.items() if n not in BUILT_IN])
        for key in keys:
            if total is None:
                taken = [self.used(child).get(key, 0) for child in children if child in BUILT_IN]
                exact = self.total.get(key, 0) - sum(taken)
                known, amount = key in self.total or any(taken), whole(exact, key)
            else:
                known, amount = key in total, total.get(key, 0)
                exact = amount * scale(key)
            shares = self._water_fill(children, key, exact, amount, known=known)
            for child, share in shares.items():
                if child not in BUILT_IN:
                    found[child][key] = share
        for child in children:
            if child not in BUILT_IN:
                self._share(child, found[child], found)

    def scaled_min(self, children: list[str], key: str, exact: int, amount: int, child: str, *, known: bool) -> int:
        own = self.quotas[child].min.get(key, 0)
        all_of_them = sum(self.quotas[other].min.get(key, 0) for other in children)
        if not self.scales_min or not known or exact >= all_of_them:
            return whole(own, key)
        if exact <= 0:
            return 0
        return min(int(float(amount) * float(whole(own, key)) / float(whole(all_of_them, key))), LARGEST)

    def _water_fill(self, children: list[str], key: str, exact: int, amount: int, *, known: bool) -> dict[str, int]:
        runtime: dict[str, int] = {}
        request: dict[str, int] = {}
        weight: dict[str, int] = {}
        hungry: list[str] = []
        for child in children:
            if child in BUILT_IN and not self.built_ins_compete:
                continue
            quota = self.quotas[child]
            least = self.scaled_min(children, key, exact, amount, child, known=known)
            if self.guarantees:
                least = max(least, whole(self.guaranteed(child).get(key, 0), key))
            request[child] = whole(self.limited(child).get(key, 0), key)
            written = (quota.max if quota.weight is None else quota.weight).get(key, 0)
            weight[child] = wrapped(ceiling(written, key)) if self.built_ins_compete else whole(written, key)
            if request[child] > least:
                runtime[child] = least
                hungry.append(child)
            else:
                runtime[child] = request[child] if quota.lends else least
        left = wrapped(amount - sum(runtime.values()))
        while left > 0 and hungry:
            weights = sum(weight[child] for child in hungry)
            if key not in self.whole_devices:
                weights = wrapped(weights)
            if weights <= 0:
                break
            shares = {child: saturated(int(float(weight[child]) * float(left) / float(weights) + 0.5)) for child in hungry}
            if key in self.whole_devices:
                shares = {child: weight[child] * left // weights for child in hungry}
                by_remainder = sorted(hungry, key=lambda child: (-(weight[child] * left % weights), child))
                for child in by_remainder[: left - sum(shares.values())]:
                    shares[child] += 1
            surplus, still = 0, []
            for child in hungry:
                runtime[child] = saturated(runtime[child] + shares[child])
                if runtime[child] >= request[child]:
                    surplus = wrapped(surplus + runtime[child] - request[child])
                    runtime[child] = request[child]
                else:
                    still.append(child)
            left, hungry = surplus, still
        return runtime


def plus(*amounts: Amounts) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in amounts:
        for resource, amount in each.items():
            found[resource] = found.get(resource, 0) + amount
    return found


def scale(resource: str) -> int:
    return 10**6 if resource == "cpu" else 10**9


def ceiling(nanos: int, resource: str) -> int:
    """Round away from zero."""
    size = -(-abs(nanos) // scale(resource))
    return size if nanos >= 0 else -size


def whole(nanos: int, resource: str) -> int:
    return saturated(ceiling(nanos, resource))


def saturated(number: int) -> int:
    return max(-LARGEST, min(number, LARGEST))


def wrapped(number: int) -> int:
    """Return what is left of a number in 64 bits."""
    return (number + 2**63) % 2**64 - 2**63
