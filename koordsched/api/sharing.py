"""Equal parts of pods that name thousands of things are kept once: pods of one template then cost together about as much as one of them.

Such parts are found again by a digest of what they say, for as long as the pod that had them last is there. Ordinary pods pass untouched.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import asdict, replace

from koordsched.api.core import PodSpec
from koordsched.api.meta import ObjectMeta

if TYPE_CHECKING:
    from koordsched.api.core import Affinity, Pod, PodAffinity, PodAffinityTerm
    from koordsched.api.meta import LabelSelector

MANY_NAMES = 128


class SharedPodSpec(PodSpec, weakref=True, gc=True):
    """The spec of a pod that names much."""


class SharedObjectMeta(ObjectMeta, weakref=True, gc=True):
    """The metadata of a pod that names much."""


_encode = msgspec.msgpack.Encoder().encode
_specs: WeakValueDictionary[bytes, SharedPodSpec] = WeakValueDictionary()  # by digest of all but the node's name
_labels: WeakValueDictionary[bytes, SharedObjectMeta] = WeakValueDictionary()  # by digest of labels and annotations


def share(pod: Pod) -> Pod:
    """Return the pod with the parts that an equal one has already, if it names much."""
    meta, spec = pod.metadata, pod.spec
    if names_in(spec) > MANY_NAMES:
        spec = _shared_spec(spec)
    if len(meta.labels) + len(meta.annotations) > MANY_NAMES:
        meta = _shared_labels(meta)
    return pod if spec is pod.spec and meta is pod.metadata else replace(pod, metadata=meta, spec=spec)


def _shared_spec(spec: PodSpec) -> PodSpec:
    key = blake2b(_encode(replace(spec, node_name=""))).digest()
    found = _specs.get(key)
    shared = SharedPodSpec(**asdict(_compact(spec))) if found is None else replace(found, node_name=spec.node_name)
    _specs[key] = shared
    return shared


def _compact(spec: PodSpec) -> PodSpec:
    """Return the spec with equal label selectors of its terms kept once, and equal values of the labels that it selects nodes by."""
    texts: dict[str, str] = {}
    spec = replace(spec, node_selector={key: texts.setdefault(value, value) for key, value in spec.node_selector.items()})
    affinity = spec.affinity
    if affinity is None:
        return spec
    selectors: dict[bytes, LabelSelector] = {}

    def compact(pods: PodAffinity | None) -> PodAffinity | None:
        if pods is None:
            return None
        required = [_with_selector(term, selectors) for term in pods.required_during_scheduling_ignored_during_execution]
        kind = type(pods.required_during_scheduling_ignored_during_execution)
        return replace(pods, required_during_scheduling_ignored_during_execution=kind(required))

    return replace(
        spec,
        affinity=replace(affinity, pod_affinity=compact(affinity.pod_affinity), pod_anti_affinity=compact(affinity.pod_anti_affinity)),
    )


def _with_selector(term: PodAffinityTerm, selectors: dict[bytes, LabelSelector]) -> PodAffinityTerm:
    if term.label_selector is None:
        return term
    return replace(term, label_selector=selectors.setdefault(_encode(term.label_selector), term.label_selector))


def _shared_labels(meta: ObjectMeta) -> ObjectMeta:
    key = blake2b(_encode((meta.labels, meta.annotations))).digest()
    found = _labels.get(key)
    shared = SharedObjectMeta(**asdict(meta))
    if found is not None:
        shared = replace(shared, labels=found.labels, annotations=found.annotations)
    _labels[key] = shared
    return shared


def names_in(spec: PodSpec) -> int:
    """Return about how many things the spec names: resources, ports, labels of nodes, taints, terms and what they select, containers."""
    count = len(spec.node_selector) + len(spec.tolerations) + len(spec.volumes)
    for constraint in spec.topology_spread_constraints:
        count += 1 + _names_in_selector(constraint.label_selector) + len(constraint.match_label_keys)
    for containers in (spec.containers, spec.init_containers):
        for container in containers:
            count += 1 + len(container.resources.requests) + len(container.resources.limits) + len(container.ports)
    return count if spec.affinity is None else count + _names_in_affinity(spec.affinity)


def _names_in_affinity(affinity: Affinity) -> int:
    nodes, count = affinity.node_affinity, 0
    if nodes is not None:
        required = nodes.required_during_scheduling_ignored_during_execution
        terms = [] if required is None else list(required.node_selector_terms)
        terms += [each.preference for each in nodes.preferred_during_scheduling_ignored_during_execution]
        count += len(terms) + sum(1 + len(each.values) for term in terms for each in (*term.match_expressions, *term.match_fields))
    for pods in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if pods is not None:
            for term in pods.required_during_scheduling_ignored_during_execution:
                count += _names_in_term(term)
            for weighted in pods.preferred_during_scheduling_ignored_during_execution:
                count += _names_in_term(weighted.pod_affinity_term)
    return count


def _names_in_term(term: PodAffinityTerm) -> int:
    selected = _names_in_selector(term.label_selector) + _names_in_selector(term.namespace_selector)
    return 1 + selected + len(term.namespaces) + len(term.match_label_keys) + len(term.mismatch_label_keys)


def _names_in_selector(selector: LabelSelector | None) -> int:
    if selector is None:
        return 0
    return len(selector.match_labels) + sum([1 + len(each.values) for each in selector.match_expressions])
