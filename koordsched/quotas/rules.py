"""What is refused of a quota that is created, changed or deleted: the checks of Koordinator's validating webhook, in its order.

Each check yields a `QuotaRefusal` with the reference's text. A webhook answers with the first one, so it need not look for the others; a
command shows all of them. Where the reference's text depends on the order of a Go map, names are sorted here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.core import Quantity
from koordsched.api.koordinator.quota_definitions import (
    DEFAULT_QUOTA,
    IS_PARENT,
    NAMESPACES,
    PARENT,
    PREFIX,
    ROOT_QUOTA,
    SHARED_WEIGHT,
    SYSTEM_QUOTA,
    TOTAL_RESOURCE,
    TREE_ID,
    Amounts,
    amount_text,
)
from koordsched.api.koordinator.reading import Malformed, read_annotation
from koordsched.api.quantity import QuantityError, format_of, nano, quantity_text
from koordsched.api.validation import FieldError
from koordsched.quotas.topology import AdmittedQuota

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from koordsched.api.core import ResourceList
    from koordsched.api.koordinator.quotas import ElasticQuota
    from koordsched.quotas.topology import PodsOfQuotas, QuotaTopology

STRICT_KEYS = PREFIX + "max-strict-check-resource-keys"
SHOWN_PODS = 2

EXISTS = "AddQuota quota already exist:{name}"
INVALID = "invalid quota {name}"
CREATED_NAMESPACE_BOUND = "AddQuota quota {name}'s annotation namespace {namespace} is already bound to quota {other}"
CHANGED_NAMESPACE_BOUND = "UpdadteQuota, quota {name} update namespaces, but namespace {namespace} is already bound to quota {other}"
UNKNOWN = "UpdateQuota quota not exist in quotaInfoMap:{name}"
NEGATIVE_LIST = "{name} quota.Spec.{field}'s value < 0, in dimensions :[{keys}]"
NEGATIVE_WEIGHT = "{name} quota.Annotation[{key}]'s value < 0, in dimension :[{keys}]"
MIN_OVER_MAX = "resourceKey {key} of quota {name} min {least} > max {most}"
MIN_NOT_IN_MAX = "resourceKey {key} of quota {name} is included in min, which is not included in max"
STRICT_KEYS_INVALID = "{name} quota.Annotation[{key}]'s value is invalid: {problem}"
MAX_BELOW_USED = "resourceKey {key} of quota {name} max {most} < used {used}"
USED_NOT_IN_MAX = "resourceKey {key} of quota {name} is included in used, which is not included in max but should check max >= used"
HAS_CHILDREN = "quota has children, isParent is forbidden to modify as false, quotaName:{name}"
HAS_PODS = "quota has bound pods, isParent is forbidden to modify as true, quotaName: {name}"
TREE_CHANGED = "{name} tree id changed [{before}] vs [{after}]"
TREE_DIFFERS = "{name} tree id is different from {relation} {other}, [{own}] vs [{others}]"
NO_PARENT = "{name} has parentName {parent} but not find parentInfo in quotaInfoMap"
NOT_A_PARENT = "{name} has parentName {parent} but the parentQuotaInfo's IsParent is false"
KEYS = "failed to check sub and parent group quotaKey, err: checkSubAndParentGroupQuotaKey failed: "
MAX_KEYS_DIFFER = KEYS + "{one}'s max keys are not the same with {other}'s"
MAX_KEYS_MISSING = KEYS + "{one}'s max keys are not all included in {other}'s"
MIN_KEYS_MISSING = KEYS + "{one}'s min keys are not all included in {other}'s"
SIBLINGS_OVER_PARENT = "checkMinQuotaSum all brothers' MinQuota > parent MinQuota, parent: {parent}"
CHILDREN_OVER_OWN = "checkMinQuotaSum all children's MinQuota > current MinQuota, current: {name}"
NOT_GUARANTEED = "tree root quota {root} can't guarantee for min {name}"
NO_GUARANTOR = "parent {parent} not found {name}"
BUILT_IN = "can not delete quotaGroup :{name}"
NOT_FOUND = "not found quota:{name}"
DELETED_WITH_CHILDREN = "delete quota failed, quota {name} has {count} child quotas"
DELETED_WITH_PODS = "delete quota failed, quota {name} has {count} child pods: {pods}"

NAME = "metadata.name"
CONCERNED_LABELS = (PARENT, IS_PARENT, TREE_ID)


class QuotaRefusal(msgspec.Struct, frozen=True):
    """One reason for which an object is refused. message: the reference's text. detail: what it leaves out, "" where nothing."""

    path: str
    value: Any
    message: str
    detail: str = ""

    def __str__(self) -> str:
        """Name the field, its value and the reason in one line."""
        text = f"{self.message} ({self.detail})" if self.detail else self.message
        return str(FieldError(self.path, self.value, text))


class QuotaGates(msgspec.Struct, frozen=True, kw_only=True):
    """Feature gates of Koordinator's manager that decide about quotas; all false by default, as there."""

    multi_quota_tree: bool = False
    guarantee_usage: bool = False  # ElasticQuotaGuaranteeUsage
    update_resource_key: bool = False  # ElasticQuotaEnableUpdateResourceKey
    disable_default_quota: bool = False
    support_parent_quota_submit_pod: bool = False
    enable_quota_admission: bool = False


class QuotaRules:
    """The rules over what is known of quotas and of their pods, which the caller keeps up to date."""

    def __init__(self, topology: QuotaTopology, pods: PodsOfQuotas, gates: QuotaGates) -> None:
        self._topology = topology
        self._pods = pods
        self._gates = gates

    def creation(self, quota: ElasticQuota) -> Iterator[QuotaRefusal]:
        """Yield why a new quota is refused, after its defaults were filled in."""
        name = quota.metadata.name
        if self._topology.get(name) is not None:
            yield QuotaRefusal(NAME, name, EXISTS.format(name=name))
            return
        yield from self._bound_namespaces(AdmittedQuota.of(quota), CREATED_NAMESPACE_BOUND)
        yield from amount_refusals(quota)
        yield from self._places(None, AdmittedQuota.of(quota), ())

    def change(self, old: ElasticQuota, new: ElasticQuota) -> Iterator[QuotaRefusal]:
        """Yield why a change is refused; one of nothing that the rules look at is not checked."""
        if _concerned_parts(old) == _concerned_parts(new):
            return
        name, admitted = new.metadata.name, AdmittedQuota.of(new)
        if name in {SYSTEM_QUOTA, ROOT_QUOTA}:
            yield QuotaRefusal(NAME, name, INVALID.format(name=name))
            return
        yield from self._bound_namespaces(admitted, CHANGED_NAMESPACE_BOUND)
        known = self._topology.get(name)
        if known is None:
            yield QuotaRefusal(NAME, name, UNKNOWN.format(name=name))
            return
        yield from amount_refusals(new)
        yield from self._places(known, admitted, AdmittedQuota.of(old).definition.namespaces)

    def deletion(self, name: str) -> Iterator[QuotaRefusal]:
        """Yield why a quota cannot be deleted."""
        if name in {SYSTEM_QUOTA, ROOT_QUOTA, DEFAULT_QUOTA}:
            yield QuotaRefusal(NAME, name, BUILT_IN.format(name=name))
            return
        if self._topology.get(name) is None:
            yield QuotaRefusal(NAME, name, NOT_FOUND.format(name=name))
            return
        children = self._topology.children(name)
        if children:
            yield QuotaRefusal(NAME, name, DELETED_WITH_CHILDREN.format(name=name, count=len(children)))
        pods = self._pods.labelled(name)
        if pods:
            shown = [*pods[:SHOWN_PODS], *(["..."] if len(pods) > SHOWN_PODS else [])]
            yield QuotaRefusal(NAME, name, DELETED_WITH_PODS.format(name=name, count=len(pods), pods=", ".join(shown)))

    def _bound_namespaces(self, quota: AdmittedQuota, text: str) -> Iterator[QuotaRefusal]:
        for namespace in quota.definition.namespaces:
            other = next((other for other in self._topology.lists(namespace) if other != quota.name), None)
            if other is not None:
                message = text.format(name=quota.name, namespace=namespace, other=other)
                yield QuotaRefusal(f"metadata.annotations[{NAMESPACES}]", namespace, message)

    # Parents and children

    def _places(self, old: AdmittedQuota | None, new: AdmittedQuota, old_namespaces: Iterable[str]) -> Iterator[QuotaRefusal]:
        """Yield what is wrong with a quota among its parent and children. old: None when it is created."""
        if new.name == ROOT_QUOTA:
            return
        yield from self._changed_kind(old, new, old_namespaces)
        yield from self._trees(old, new)
        parent_name, parent = new.definition.parent, None
        if parent_name == ROOT_QUOTA:
            if not new.definition.is_parent:
                return  # what follows compares with parents other than the root, and with children
        else:
            parent = self._topology.get(parent_name)
            if parent is None:
                yield _label(PARENT, parent_name, NO_PARENT.format(name=new.name, parent=parent_name))
                return
            if not parent.definition.is_parent:
                detail = f"the parent needs the label {IS_PARENT}: true"
                yield _label(PARENT, parent_name, NOT_A_PARENT.format(name=new.name, parent=parent_name), detail)
        yield from self._resource_keys(parent, new)
        yield from self._sums_of_min(parent, new)
        if self._gates.guarantee_usage:
            yield from self._guarantees(new)

    def _changed_kind(self, old: AdmittedQuota | None, new: AdmittedQuota, old_namespaces: Iterable[str]) -> Iterator[QuotaRefusal]:
        if old is None or old.definition.is_parent == new.definition.is_parent:
            return
        if not new.definition.is_parent:
            if self._topology.children(new.name):
                yield _label(IS_PARENT, "", HAS_CHILDREN.format(name=new.name))
        elif self._pods.are_there(new.name, old_namespaces):
            yield _label(IS_PARENT, "true", HAS_PODS.format(name=new.name))

    def _trees(self, old: AdmittedQuota | None, new: AdmittedQuota) -> Iterator[QuotaRefusal]:
        own = new.definition.tree_id
        if old is not None and old.definition.tree_id != own:
            yield _label(TREE_ID, own, TREE_CHANGED.format(name=new.name, before=old.definition.tree_id, after=own))
        relatives = [("child", child) for child in self._topology.children(new.name) if child.name != new.name]
        parent = self._topology.get(new.definition.parent)
        if parent is not None and parent.name != ROOT_QUOTA:
            relatives.insert(0, ("parent", parent))
        for relation, other in relatives:
            others = other.definition.tree_id
            if others != own:
                message = TREE_DIFFERS.format(name=new.name, relation=relation, other=other.name, own=own, others=others)
                yield _label(TREE_ID, own, message)

    def _resource_keys(self, parent: AdmittedQuota | None, new: AdmittedQuota) -> Iterator[QuotaRefusal]:
        if parent is not None:
            if self._gates.update_resource_key:
                yield from _missing_keys("max", new, parent, MAX_KEYS_MISSING)
            else:
                yield from _differing_keys(parent, new)
            yield from _missing_keys("min", new, parent, MIN_KEYS_MISSING)
        for child in self._topology.children(new.name):
            if self._gates.update_resource_key:
                yield from _missing_keys("max", child, new, MAX_KEYS_MISSING)
            else:
                yield from _differing_keys(child, new)
            yield from _missing_keys("min", child, new, MIN_KEYS_MISSING)

    def _sums_of_min(self, parent: AdmittedQuota | None, new: AdmittedQuota) -> Iterator[QuotaRefusal]:
        if new.is_forced or new.is_tree_root:
            return
        if parent is not None:
            siblings = [child.definition.min for child in self._topology.children(parent.name) if child.name != new.name]
            over = _excess(_sum([*siblings, new.definition.min]), parent.definition.min)
            if over:
                yield QuotaRefusal("spec.min", None, SIBLINGS_OVER_PARENT.format(parent=parent.name), over)
        children = [child.definition.min for child in self._topology.children(new.name)]
        over = _excess(_sum(children), new.definition.min)
        if over:
            yield QuotaRefusal("spec.min", None, CHILDREN_OVER_OWN.format(name=new.name), over)

    def _guarantees(self, new: AdmittedQuota) -> Iterator[QuotaRefusal]:
        """Refuse a min that no ancestor can guarantee: what an ancestor is guaranteed has to cover its children."""
        least = new.definition.min
        if new.is_forced or new.is_tree_root or not new.definition.tree_id or not _excess(least, new.guaranteed):
            return
        quota, wanted, seen = new, _greater(least, new.guaranteed), {new.name}
        while quota.definition.parent != ROOT_QUOTA:
            parent = self._topology.get(quota.definition.parent)
            if parent is None or parent.name in seen:
                yield _label(PARENT, quota.definition.parent, NO_GUARANTOR.format(parent=quota.definition.parent, name=new.name))
                return
            seen.add(parent.name)
            siblings = [child.guaranteed for child in self._topology.children(parent.name) if child.name != quota.name]
            wanted = _greater(parent.definition.min, _sum([wanted, *siblings]))
            if not _excess(wanted, parent.guaranteed):
                return
            quota = parent
        yield QuotaRefusal("spec.min", None, NOT_GUARANTEED.format(root=quota.name, name=new.name))


def amount_refusals(quota: ElasticQuota) -> Iterator[QuotaRefusal]:
    """Yield what is wrong with a quota's own amounts."""
    name, annotations = quota.metadata.name, quota.metadata.annotations
    most, least = _Written(quota.spec.max, "spec.max"), _Written(quota.spec.min, "spec.min")
    for field, amounts in (("Max", most), ("Min", least)):
        yield from amounts.refusals
        yield from amounts.negative(NEGATIVE_LIST.format(name=name, field=field, keys="{keys}"))
    if annotations.get(SHARED_WEIGHT):
        try:
            weight = _Written(written_weight(annotations), f"metadata.annotations[{SHARED_WEIGHT}]")
        except Malformed as malformed:
            yield _annotation(malformed, malformed.problem)
        else:
            yield from weight.refusals
            yield from weight.negative(NEGATIVE_WEIGHT.format(name=name, key=SHARED_WEIGHT, keys="{keys}"))
    for key in sorted(least.nanos):
        path, value = f"spec.min[{key}]", quota.spec.min[key]
        if key not in quota.spec.max:
            yield QuotaRefusal(path, value, MIN_NOT_IN_MAX.format(key=key, name=name))
        elif key in most.nanos and least.nanos[key] > most.nanos[key]:
            yield QuotaRefusal(path, value, MIN_OVER_MAX.format(key=key, name=name, least=least.text(key), most=most.text(key)))
    yield from _strict_refusals(quota, most)


def _strict_refusals(quota: ElasticQuota, most: _Written) -> Iterator[QuotaRefusal]:
    """Yield which resources, of those that the quota says are strict, are used beyond max."""
    name, annotations = quota.metadata.name, quota.metadata.annotations
    if not annotations.get(STRICT_KEYS):
        return
    try:
        keys = read_annotation(annotations, STRICT_KEYS, list[str]) or ()
    except Malformed as malformed:
        yield _annotation(malformed, STRICT_KEYS_INVALID.format(name=name, key=STRICT_KEYS, problem=malformed.problem))
        return
    used = _Written(quota.status.used, "status.used")
    for key in keys:
        if key not in used.nanos:
            continue
        if key not in quota.spec.max:
            yield QuotaRefusal("spec.max", None, USED_NOT_IN_MAX.format(key=key, name=name))
        elif key in most.nanos and most.nanos[key] < used.nanos[key]:
            message = MAX_BELOW_USED.format(key=key, name=name, most=most.text(key), used=used.text(key))
            yield QuotaRefusal(f"spec.max[{key}]", quota.spec.max[key], message)


def unread_refusals(quota: ElasticQuota, topology: QuotaTopology) -> Iterator[QuotaRefusal]:
    """Yield what the reference's webhook lets pass, and what the scheduler then cannot use (elasticquota.md §16)."""
    annotations = quota.metadata.annotations
    for key, shape, meanwhile in ((NAMESPACES, list[str], "no namespace counts"), (TOTAL_RESOURCE, dict[str, Quantity | None], "")):
        if annotations.get(key):
            try:
                written = read_annotation(annotations, key, shape)
            except Malformed as malformed:
                yield QuotaRefusal(f"metadata.annotations[{key}]", malformed.value, malformed.problem, meanwhile)
            else:
                if isinstance(written, dict):
                    amounts = _Written({name: amount or 0 for name, amount in written.items()}, f"metadata.annotations[{key}]")
                    yield from amounts.refusals
    admitted = AdmittedQuota.of(quota)
    if admitted.name != ROOT_QUOTA and topology.is_own_ancestor(admitted):
        yield _label(PARENT, admitted.definition.parent, "the quota is its own ancestor", "it would get what it asks for up to its min")


def written_weight(annotations: Mapping[str, str]) -> ResourceList:
    """Return the shared weight as it is written. Malformed: it is no resource list."""
    written = read_annotation(annotations, SHARED_WEIGHT, dict[str, Quantity | None]) or {}
    return {name: "0" if quantity is None else quantity for name, quantity in written.items()}


class _Written:
    """A resource list as it is written: what of it are quantities, and which are not."""

    def __init__(self, written: ResourceList, path: str) -> None:
        self._written = written
        self._path = path
        self.nanos: Amounts = {}
        self.refusals: list[QuotaRefusal] = []
        for name, quantity in written.items():
            try:
                self.nanos[name] = nano(quantity)
            except (QuantityError, TypeError) as error:  # TypeError: a list or an object
                problem = error.problem if isinstance(error, QuantityError) else QuantityError(quantity).problem
                self.refusals.append(QuotaRefusal(f"{path}[{name}]", None, problem))

    def text(self, name: str) -> str:
        return quantity_text(self.nanos[name], format_of(self._written[name]))

    def negative(self, text: str) -> Iterator[QuotaRefusal]:
        """Yield one refusal that names all amounts below 0."""
        names = sorted(name for name, amount in self.nanos.items() if amount < 0)
        if names:
            yield QuotaRefusal(f"{self._path}[{names[0]}]", self._written[names[0]], text.format(keys=" ".join(names)))


def _concerned_parts(quota: ElasticQuota) -> tuple[Any, ...]:
    """Return the parts of a quota that a change has to touch to be checked."""
    labels = tuple(quota.metadata.labels.get(key, "") for key in CONCERNED_LABELS)
    return labels, quota.metadata.annotations.get(NAMESPACES, ""), quota.spec


def _label(key: str, value: str, message: str, detail: str = "") -> QuotaRefusal:
    return QuotaRefusal(f"metadata.labels[{key}]", value, message, detail)


def _annotation(malformed: Malformed, message: str) -> QuotaRefusal:
    return QuotaRefusal(f"metadata.annotations[{malformed.key}]", malformed.value, message)


def _missing_keys(field: str, one: AdmittedQuota, other: AdmittedQuota, text: str) -> Iterator[QuotaRefusal]:
    """Refuse keys of min or max that the other quota's lacks."""
    missing = sorted(_amounts_of(one, field).keys() - _amounts_of(other, field).keys())
    if missing:
        yield QuotaRefusal(f"spec.{field}", None, text.format(one=one.name, other=other.name), f"{other.name} lacks {', '.join(missing)}")


def _amounts_of(quota: AdmittedQuota, field: str) -> Amounts:
    return quota.definition.max if field == "max" else quota.definition.min


def _differing_keys(one: AdmittedQuota, other: AdmittedQuota) -> Iterator[QuotaRefusal]:
    own, others = one.definition.max.keys(), other.definition.max.keys()
    lacks = [
        f"{quota.name} lacks {', '.join(sorted(missing))}" for quota, missing in ((one, others - own), (other, own - others)) if missing
    ]
    if lacks:
        yield QuotaRefusal("spec.max", None, MAX_KEYS_DIFFER.format(one=one.name, other=other.name), "; ".join(lacks))


def _sum(lists: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for amounts in lists:
        for name, amount in amounts.items():
            total[name] = total.get(name, 0) + amount
    return total


def _greater(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one.keys() | other.keys()}


def _excess(amounts: Amounts, limits: Amounts) -> str:
    """Say which amounts are more than their limits, of which a missing one is 0; "" when none is."""
    over = [
        f"{name}: {amount_text(name, amounts[name])} > {amount_text(name, limits.get(name, 0))}"
        for name in sorted(amounts)
        if amounts[name] > limits.get(name, 0)
    ]
    return ", ".join(over)
