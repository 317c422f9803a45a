"""What admission says about pods and their quotas: which quota a pod is of, what is refused, and on which nodes its tree keeps it.

The rules are those of Koordinator's pod webhooks (elasticquota.md §15).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.core import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm
from koordsched.api.koordinator.device_requests import GPU_MEMORY_RATIO, GPU_SHARED, KOORDINATOR_GPU, NVIDIA_GPU
from koordsched.api.koordinator.quota_definitions import (
    CHILD_REQUEST,
    DEFAULT_QUOTA,
    PREEMPTIBLE,
    PREFIX,
    QUOTA_NAME,
    ROOT_QUOTA,
    SYSTEM_QUOTA,
    amount_text,
    annotated_amounts,
    list_text,
)
from koordsched.api.meta import LabelSelectorRequirement
from koordsched.api.resources import exact_requests
from koordsched.quotas.profiles import tree_of
from koordsched.quotas.rules import QuotaRefusal
from koordsched.quotas.topology import AdmittedQuota

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from koordsched.api.core import Pod
    from koordsched.api.koordinator.quota_definitions import Amounts
    from koordsched.api.koordinator.quotas import ElasticQuota, ElasticQuotaProfile
    from koordsched.api.meta import LabelSelector
    from koordsched.quotas.rules import QuotaGates
    from koordsched.quotas.topology import QuotaTopology

ADMISSION = PREFIX + "admission"
BUILT_IN = frozenset({ROOT_QUOTA, SYSTEM_QUOTA, DEFAULT_QUOTA})
ENDED = frozenset({"Succeeded", "Failed"})

OF_PARENT = "pod can not be linked to a parentQuotaGroup,quota:{quota}, pod:{pod}"
PREEMPTIBLE_CHANGED = "Preemptible label is forbidden modify now."
EXCEEDED = "exceeded quota: {namespace}/{name}, requested: {requested}, used: {used}, limited: {limit}"
QUOTA_NOT_FOUND = "elastic quota {name} not found"
SEVERAL_QUOTAS = "more than one elastic quota {name} found"

COUNTED_AT_ADMISSION = frozenset(
    {
        *(f"{prefix}{name}" for prefix in ("", "requests.") for name in ("cpu", "memory", "ephemeral-storage")),
        *(f"kubernetes.io/{band}-{name}" for band in ("batch", "mid") for name in ("cpu", "memory")),
        KOORDINATOR_GPU,
        NVIDIA_GPU,
        GPU_SHARED,
        GPU_MEMORY_RATIO,
    }
)
"""A quota whose max names none of these admits every pod."""


# Which quota a pod is of


def quota_name_of(pod: Pod, topology: QuotaTopology, gates: QuotaGates) -> str:
    """Return the name of the pod's quota, known or not; "" where there is none. The label decides; then its namespace; then the default."""
    label = pod.metadata.labels.get(QUOTA_NAME, "")
    if label or gates.disable_default_quota:
        return label
    namespace = pod.metadata.namespace
    own = topology.get(namespace)
    if own is not None and own.namespace == namespace:
        return own.name
    listed = topology.lists(namespace)
    return listed[0] if listed else DEFAULT_QUOTA


# What is refused


def pod_creation(pod: Pod, topology: QuotaTopology, gates: QuotaGates) -> Iterator[QuotaRefusal]:
    """Refuse pods of a quota that has children: what such a quota has is theirs."""
    if gates.support_parent_quota_submit_pod:
        return
    name = quota_name_of(pod, topology, gates)
    known = topology.get(name)
    if known is not None and name != DEFAULT_QUOTA and known.definition.is_parent:
        path, value = _where_named(pod, name)
        yield QuotaRefusal(path, value, OF_PARENT.format(quota=name, pod=pod.metadata.name))


def pod_change(old: Pod, new: Pod, topology: QuotaTopology, gates: QuotaGates) -> Iterator[QuotaRefusal]:
    before, after = (pod.metadata.labels.get(PREEMPTIBLE, "") for pod in (old, new))
    if before != after:
        yield QuotaRefusal(f"metadata.labels[{PREEMPTIBLE}]", after, PREEMPTIBLE_CHANGED)
    yield from pod_creation(new, topology, gates)


def _where_named(pod: Pod, name: str) -> tuple[str, str]:
    """Return the field of a pod by which it is of the quota, and its value."""
    if pod.metadata.labels.get(QUOTA_NAME) == name:
        return f"metadata.labels[{QUOTA_NAME}]", name
    return "metadata.namespace", pod.metadata.namespace


# Quota admission (gate EnableQuotaAdmission)


def quota_for_admission(pod: Pod, quotas: Iterable[ElasticQuota], topology: QuotaTopology, gates: QuotaGates) -> ElasticQuota | str | None:
    """Return the quota that has to admit a new pod. None: it needs no admission; a text: it is refused, and why."""
    name = quota_name_of(pod, topology, gates)
    if not gates.enable_quota_admission or not name or name in BUILT_IN:
        return None
    found = [quota for quota in quotas if quota.metadata.name == name]
    if not found:
        return QUOTA_NOT_FOUND.format(name=name)
    return SEVERAL_QUOTAS.format(name=name) if len(found) > 1 else found[0]


def admitted_child_request(quota: ElasticQuota, pod: Pod) -> str | None:
    """Admit a new pod to its quota: return the annotation child-request that counts it, to be written before the next pod is asked about.

    None: nothing that the quota limits is asked for. ValueError: the quota has no room, or an annotation of it cannot be read; the text
    says which. What scheduling renames of pods (`ElasticQuotaEvaluationTransformPod`) is done before.
    """
    problems: list[str] = []
    admitted = AdmittedQuota.of(quota)
    limited = admitted.definition.max
    if not limited.keys() & COUNTED_AT_ADMISSION or pod.status.phase in ENDED:
        return None
    requested = {name: amount for name, amount in exact_requests(pod).items() if amount and name in limited}
    if not requested:
        return None
    annotations = quota.metadata.annotations
    used = annotated_amounts(annotations, CHILD_REQUEST, problems) or {}
    limit = annotated_amounts(annotations, ADMISSION, problems) or limited
    if problems:
        raise ValueError(problems[0])
    exceeded = sorted(name for name in requested if name in limit and used.get(name, 0) + requested[name] > limit[name])
    if exceeded:
        raise ValueError(
            EXCEEDED.format(
                namespace=quota.metadata.namespace,
                name=quota.metadata.name,
                requested=_listed(requested, exceeded),
                used=_listed(used, exceeded),
                limit=_listed(limit, exceeded),
            )
        )
    return list_text({name: used.get(name, 0) + requested.get(name, 0) for name in used.keys() | requested.keys()}, amount_text)


def _listed(amounts: Amounts, names: Iterable[str]) -> str:
    return ",".join(f"{name}={amount_text(name, amounts[name])}" for name in names if name in amounts)


# Trees


def affinity_of_tree(pod: Pod, topology: QuotaTopology, profiles: Iterable[ElasticQuotaProfile], gates: QuotaGates) -> Affinity | None:
    """Return the affinity that keeps a new pod on the nodes of its quota's tree; None where it stays as it is.

    The node selector of the tree's profile becomes part of every term that the pod requires. Of several profiles of a tree the first by
    namespace and name counts.
    """
    quota = _quota_of_tree(pod, topology) if gates.multi_quota_tree else None
    if quota is None:
        return None
    tree = quota.definition.tree_id
    of_tree = [profile for profile in profiles if tree_of(profile) == tree]
    chosen = min(of_tree, key=lambda profile: (profile.metadata.namespace, profile.metadata.name), default=None)
    if chosen is None or chosen.spec.node_selector is None:
        return None
    added = _requirements(chosen.spec.node_selector)
    affinity = pod.spec.affinity or Affinity()
    nodes = affinity.node_affinity or NodeAffinity()
    required = nodes.required_during_scheduling_ignored_during_execution
    terms = required.node_selector_terms if required is not None and required.node_selector_terms else (NodeSelectorTerm(),)
    made = NodeSelector(tuple(msgspec.structs.replace(term, match_expressions=(*term.match_expressions, *added)) for term in terms))
    nodes = msgspec.structs.replace(nodes, required_during_scheduling_ignored_during_execution=made)
    return msgspec.structs.replace(affinity, node_affinity=nodes)


def _quota_of_tree(pod: Pod, topology: QuotaTopology) -> AdmittedQuota | None:
    """Return the quota that the label or the namespace names, or that lists the namespace, if it is in a tree."""
    namespace = pod.metadata.namespace
    names: Sequence[str] = (pod.metadata.labels.get(QUOTA_NAME) or namespace, *topology.lists(namespace))
    found = next((quota for quota in map(topology.get, names) if quota is not None), None)
    return found if found is not None and found.definition.tree_id else None


def _requirements(selector: LabelSelector) -> tuple[LabelSelectorRequirement, ...]:
    labels: Mapping[str, str] = selector.match_labels
    equal = tuple(LabelSelectorRequirement(key, "In", (labels[key],)) for key in sorted(labels))
    return (*equal, *selector.match_expressions)
