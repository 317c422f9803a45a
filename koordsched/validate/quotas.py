"""Quotas, profiles and pods among the objects, judged as Koordinator's webhooks would judge them (`koordsched.quotas`).

Objects are taken in the order in which a cluster could take them: profiles make their quotas, parents come before their children, pods
last. What is refused is known to all that follows nevertheless, so that one mistake is one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec

from koordsched.api.kinds import ELASTIC_QUOTA, ELASTIC_QUOTA_PROFILE, NODE, POD
from koordsched.api.koordinator.quota_definitions import (
    CHILD_REQUEST,
    IS_ROOT,
    PARENT,
    QUOTA_NAME,
    SHARED_WEIGHT,
    TREE_ID,
    TRUE,
    parent_name,
)
from koordsched.api.selectors import SelectorError
from koordsched.api.validation import decode
from koordsched.config.errors import near_miss
from koordsched.quotas.defaults import QuotaDefaults, defaults_of
from koordsched.quotas.pods import (
    BUILT_IN,
    admitted_child_request,
    affinity_of_tree,
    pod_change,
    pod_creation,
    quota_for_admission,
)
from koordsched.quotas.profiles import PROFILE, profile_refusals, profile_writes
from koordsched.quotas.rules import QuotaRules, amount_refusals, unread_refusals
from koordsched.quotas.topology import PodsOfQuotas, QuotaTopology
from koordsched.validate.objects import plain_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from koordsched.api.core import Node, Pod
    from koordsched.api.koordinator.quotas import ElasticQuota, ElasticQuotaProfile
    from koordsched.quotas.rules import QuotaGates, QuotaRefusal
    from koordsched.validate.findings import CheckedObject, Findings


class QuotaValidation:
    """One run over all objects. there: what the cluster has; those of `objects` with the same kind and name are changes of it."""

    def __init__(self, there: Sequence[CheckedObject], objects: Sequence[CheckedObject], gates: QuotaGates, findings: Findings) -> None:
        self._there = {(checked.manifest.kind, checked.manifest.key): checked for checked in there}
        self._objects = objects
        self._gates = gates
        self._findings = findings
        self._topology = QuotaTopology()
        self._quotas: dict[str, ElasticQuota] = {}  # by name, as they are in the end
        self._pods = PodsOfQuotas(cast("Pod", checked.obj) for checked in there if checked.manifest.kind is POD)
        self._rules = QuotaRules(self._topology, self._pods, gates)
        for checked in there:
            if checked.manifest.kind is ELASTIC_QUOTA and self._topology.get(checked.name) is None:
                self._keep(cast("ElasticQuota", checked.obj))

    def run(self) -> None:
        profiles = [checked for checked in self._objects if checked.manifest.kind is ELASTIC_QUOTA_PROFILE]
        quotas = [checked for checked in self._objects if checked.manifest.kind is ELASTIC_QUOTA]
        for checked in profiles:
            self._profile(checked, quotas)
        parents = {checked.name: parent_name(cast("ElasticQuota", checked.obj)) for checked in quotas}
        places = {checked.name: checked.place for checked in quotas}
        in_circle = {name for name in parents if _is_in_circle(name, parents)}
        for checked in sorted(quotas, key=lambda checked: (_depth(checked.name, parents), checked.place)):
            if checked.name in in_circle and self._topology.get(checked.name) is None:
                self._keep(cast("ElasticQuota", checked.obj))
        for checked in sorted(quotas, key=lambda checked: (_depth(checked.name, parents), checked.place)):
            self._quota(checked, in_circle)
            parent = parents[checked.name]
            is_new = (ELASTIC_QUOTA, checked.manifest.key) not in self._there
            if is_new and checked.name not in in_circle and places.get(parent, 0) > checked.place:
                self._findings.warning(
                    checked,
                    f"metadata.labels[{PARENT}]: {parent!r} comes later: a webhook refuses a quota that is created before its parent",
                )
        self._second_roots(quotas)
        for checked in self._objects:
            if checked.manifest.kind is POD:
                self._pod(checked)

    # Profiles

    def _profile(self, checked: CheckedObject, quotas: Sequence[CheckedObject]) -> None:
        profile = cast("ElasticQuotaProfile", checked.obj)
        self._refuse_all(checked, profile_refusals(profile))
        name = profile.spec.quota_name
        if not name:
            return
        nodes = [cast("Node", other.obj) for other in self._everything() if other.manifest.kind is NODE]
        for other in quotas:
            if other.name == name and other.obj.metadata.labels.get(PROFILE) != checked.name:
                self._findings.warning(
                    other, f"metadata.name: the ElasticQuotaProfile {checked.name} writes this quota: labels, min and max"
                )
        known = self._quotas.get(name)
        try:
            writes = profile_writes(profile, nodes, known)
        except SelectorError as mistake:
            self._findings.problem(checked.place, checked.manifest, f"spec.nodeSelector: {mistake}")
            return
        if writes.profile_labels is not None:
            metadata = checked.manifest.body["metadata"]
            labels = {**(metadata.get("labels") or {}), **writes.profile_labels}
            self._findings.fills_in(checked.place, {**checked.manifest.body, "metadata": {**metadata, "labels": labels}})
        if not nodes and known is None:
            self._findings.warning(checked, "spec.nodeSelector: no Node is given, so what the tree has is not known")
        if writes.create is not None:
            quota = cast("ElasticQuota", decode(ELASTIC_QUOTA, writes.create))
            if not nodes:  # what is not known limits no children
                quota = msgspec.structs.replace(quota, spec=msgspec.structs.replace(quota.spec, min=quota.spec.max))
            self._refuse_all(checked, self._rules.creation(quota))
            self._keep(quota)
            if nodes:
                self._findings.fills_in(checked.place, writes.create)

    # Quotas

    def _quota(self, checked: CheckedObject, in_circle: set[str]) -> None:
        quota = cast("ElasticQuota", checked.obj)
        before = self._there.get((ELASTIC_QUOTA, checked.manifest.key))
        if checked.name in in_circle:
            self._refuse_all(checked, (*amount_refusals(quota), *unread_refusals(quota, self._topology)))
            return
        if before is not None:
            self._refuse_all(checked, self._rules.change(cast("ElasticQuota", before.obj), quota))
        else:
            made = defaults_of(quota, self._topology)
            if isinstance(made, QuotaDefaults):
                from_max = not quota.metadata.annotations.get(SHARED_WEIGHT)  # so that what is wrong with max is wrong with it too
                quota = self._filled_in(checked, made)
                found = self._rules.creation(quota)
                self._refuse_all(checked, (refusal for refusal in found if not (from_max and SHARED_WEIGHT in refusal.path)))
            else:  # the rules say so too: the parent is not there, or the weight cannot be read
                others = [refusal for refusal in self._rules.creation(quota) if not refusal.path.startswith(made.path)]
                self._refuse_all(checked, [made, *others])
        self._refuse_all(checked, unread_refusals(quota, self._topology))
        if before is not None or self._topology.get(checked.name) is None:
            self._keep(quota)

    def _filled_in(self, checked: CheckedObject, made: QuotaDefaults) -> ElasticQuota:
        quota = made.applied(cast("ElasticQuota", checked.obj))
        if made.labels or made.annotations:
            body = checked.manifest.body
            metadata = dict(body["metadata"])
            for field, texts in (("labels", made.labels), ("annotations", made.annotations)):
                if texts:
                    metadata[field] = {**(metadata.get(field) or {}), **texts}
            self._findings.fills_in(checked.place, {**body, "metadata": metadata})
        return quota

    def _second_roots(self, quotas: Iterable[CheckedObject]) -> None:
        roots: dict[str, str] = {}
        for quota in self._topology:
            if quota.is_tree_root and quota.definition.tree_id:
                roots.setdefault(quota.definition.tree_id, quota.name)
        for checked in quotas:
            labels = checked.obj.metadata.labels
            tree = labels.get(TREE_ID, "")
            if labels.get(IS_ROOT) == TRUE and roots.get(tree, checked.name) != checked.name:
                self._findings.warning(checked, f"metadata.labels[{TREE_ID}]: the tree {tree!r} has another root: {roots[tree]}")

    # Pods

    def _pod(self, checked: CheckedObject) -> None:
        pod, before = cast("Pod", checked.obj), self._there.get((POD, checked.manifest.key))
        if before is not None:
            self._refuse_all(checked, pod_change(cast("Pod", before.obj), pod, self._topology, self._gates))
        else:
            self._refuse_all(checked, pod_creation(pod, self._topology, self._gates))
            self._admit(checked, pod)
            self._keep_to_tree(checked, pod)
        label = pod.metadata.labels.get(QUOTA_NAME)
        if label and label not in BUILT_IN and self._topology.get(label) is None:
            without = "no quota" if self._gates.disable_default_quota else "the default quota"
            names = [quota.name for quota in self._topology]
            self._findings.warning(
                checked,
                f"metadata.labels[{QUOTA_NAME}]: {label!r}: no such quota is given, so the pod is of {without}{near_miss(label, names)}",
            )

    def _admit(self, checked: CheckedObject, pod: Pod) -> None:
        quota = quota_for_admission(pod, self._quotas.values(), self._topology, self._gates)
        if isinstance(quota, str):
            self._findings.problem(checked.place, checked.manifest, quota)
        elif quota is not None:
            try:
                counted = admitted_child_request(quota, pod)
            except ValueError as refused:
                self._findings.problem(checked.place, checked.manifest, refused)
            else:
                if counted is not None:
                    annotations = {**quota.metadata.annotations, CHILD_REQUEST: counted}
                    metadata = msgspec.structs.replace(quota.metadata, annotations=annotations)
                    self._quotas[quota.metadata.name] = msgspec.structs.replace(quota, metadata=metadata)

    def _keep_to_tree(self, checked: CheckedObject, pod: Pod) -> None:
        profiles = [cast("ElasticQuotaProfile", other.obj) for other in self._everything() if other.manifest.kind is ELASTIC_QUOTA_PROFILE]
        affinity = affinity_of_tree(pod, self._topology, profiles, self._gates)
        if affinity is not None:
            body = checked.manifest.body
            self._findings.fills_in(checked.place, {**body, "spec": {**body["spec"], "affinity": msgspec.to_builtins(affinity)}})

    # All

    def _everything(self) -> Iterator[CheckedObject]:
        """Yield the objects, and those of the cluster that none of them changes."""
        given = {(checked.manifest.kind, checked.manifest.key) for checked in self._objects}
        yield from self._objects
        yield from (checked for key, checked in self._there.items() if key not in given)

    def _keep(self, quota: ElasticQuota) -> None:
        self._quotas[quota.metadata.name] = quota
        self._topology.set(quota)

    def _refuse_all(self, checked: CheckedObject, refusals: Iterable[QuotaRefusal]) -> None:
        for refusal in refusals:
            if plain_path(refusal.path) not in checked.refused_fields:
                self._findings.problem(checked.place, checked.manifest, refusal)


def _depth(name: str, parents: dict[str, str]) -> int:
    """Return how many of the quotas stand above one; those in circles, and below them, come last."""
    depth = 0
    while (name := parents.get(name, "")) in parents:
        depth += 1
        if depth > len(parents):
            break
    return depth


def _is_in_circle(name: str, parents: dict[str, str]) -> bool:
    above = parents[name]
    for _ in parents:
        if above == name:
            return True
        above = parents.get(above, "")
    return False
