"""The objects of the embedded cluster and the rules by which they change. Nothing here waits, and no faults are injected here.

One resource version over all kinds. Stored objects are shared, never copied and never changed in place; what comes in is copied once, and
refused when it is not JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from koordsched.api.core import Pod
from koordsched.api.kinds import NAMESPACE, NODE, POD, POD_DISRUPTION_BUDGET, PRIORITY_CLASS, Kind
from koordsched.clock import Clock, rfc3339
from koordsched.cluster.memory import answers
from koordsched.cluster.memory.admission import PRIORITY_CLASSES, admit_pod, global_default
from koordsched.cluster.memory.checking import Checker
from koordsched.cluster.memory.evictions import budget_after, covers, evicted, may_disrupt
from koordsched.cluster.memory.lifecycle import BoundStatuses, check_bindable, deleted, finished
from koordsched.cluster.memory.metadata import (
    Identities,
    check_preconditions,
    check_type,
    client_fields,
    identify,
    object_field,
    with_server_fields,
)
from koordsched.cluster.memory.patches import PatchError, merge_patch, strategic_merge_patch
from koordsched.cluster.memory.schemas import BUILT_IN_GROUPS, canonical, definition_of, has_status_resource
from koordsched.cluster.memory.store import HistoryEntry, KindStore, Raw, Stored, key_of
from koordsched.cluster.memory.templates import Template, TemplateCache, template_key
from koordsched.cluster.port import Binding, Invalid, Patch, PatchType, Ref

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from koordsched.api.meta import Object


class Registry:
    """Every object by kind and key. `version` is the resource version of the last write."""

    def __init__(self, clock: Clock, random: Random, history: int) -> None:
        self.version = 0
        self._clock = clock
        self._history = history
        self._identities = Identities(random)
        self._checker = Checker()
        self._bound_statuses = BoundStatuses()
        self._templates = {POD: TemplateCache(), NODE: TemplateCache()}  # of the kinds that come in thousands
        self._kinds: dict[Kind, KindStore] = {}
        self._moment = -1.0
        self._timestamp = ""
        self._pods = self.kind(POD)
        self._namespaces = self.kind(NAMESPACE).objects
        self._priority_classes = self.kind(PRIORITY_CLASS)
        self._global_default: tuple[int, Raw | None] = (-1, None)  # the default class, and how many writes to classes it was found after
        for name, value in PRIORITY_CLASSES.items():
            self.create(PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})

    def kind(self, kind: Kind) -> KindStore:
        store = self._kinds.get(kind)
        if store is None:
            store = self._kinds[kind] = KindStore(kind, self._history)
        return store

    def kinds(self) -> list[KindStore]:
        return list(self._kinds.values())

    def take_over(self, other: Registry) -> None:
        """Have the objects of another registry, which share their states, in place of all that is here."""
        self.version = other.version
        for store in other.kinds():
            own = self.kind(store.kind)
            own.objects = dict(store.objects)
            own.compact(self.version)
        self._namespaces = self.kind(NAMESPACE).objects

    def find(self, ref: Ref) -> Stored:
        stored = self.kind(ref.kind).objects.get(key_of(ref.namespace, ref.name))
        if stored is None:
            raise answers.not_found(ref)
        return stored

    def create(self, kind: Kind, body: Mapping[str, Any]) -> Stored:
        """Create the object, and its namespace on demand. AlreadyExists, Invalid, Forbidden (no such priority class)."""
        templates = self._templates.get(kind)
        if templates is None:
            return self._create_anew(kind, body, None)
        key = template_key(body)
        template = templates.get(key, self._priority_classes.end)
        if template is not None and (stored := self._create_from(template, kind, body["metadata"].get("name"))) is not None:
            return stored
        stored = self._create_anew(kind, body, templates.with_other_metadata(body) if key else None)
        templates.put(key, body, stored.raw, stored.object())
        return stored

    def _create_from(self, template: Template, kind: Kind, name: Any) -> Stored | None:
        """Create an object that differs from its template in its name only. None: it cannot; `_create_anew` finds out why."""
        store, namespace = self._kinds[kind], template.object.metadata.namespace
        key = f"{namespace}/{name}" if namespace else name
        if not template.allows(name) or key in store.objects or (namespace and namespace not in self._namespaces):
            return None
        version = self.version + 1
        raw, made = template.renamed(name, self._identities.uid(), str(version), self._now())
        return self._add(store, key, Stored(kind, raw, version, made))

    def _create_anew(self, kind: Kind, body: Mapping[str, Any], template: Template | None) -> Stored:
        """Create an object; a template, if given, differs from it in metadata only."""
        store = self.kind(kind)
        raw = _own_copy(body) if template is None else {**template.raw, "metadata": _own_copy(body["metadata"])}
        now = self._now()
        ref = identify(kind, raw, self._identities, now)
        key = key_of(ref.namespace, ref.name)
        if key in store.objects:
            raise answers.already_exists(ref)
        if store is self._pods and template is None:
            admit_pod(raw, self._priority_class, now)
        self._shape(kind, raw)
        self._stamp(raw)
        decoded: Object | None = (
            self._checker.checked(kind, raw) if template is None else self._checker.checked_metadata(kind, template.object, raw)
        )
        if ref.namespace and ref.namespace not in self._namespaces:
            self.create(NAMESPACE, {"metadata": {"name": ref.namespace}})
            self._stamp(raw)
            decoded = None  # its version was taken by the namespace
        return self._add(store, key, Stored(kind, raw, self.version + 1, decoded))

    def _add(self, store: KindStore, key: str, stored: Stored) -> Stored:
        """Store a new object under the version of this write, which its metadata carries already."""
        self.version = stored.version
        store.objects[key] = stored
        store.record(HistoryEntry(stored.version, None, stored))
        return stored

    def patch(self, ref: Ref, patch: Patch) -> Stored:
        """Apply the patch; a write that changes nothing makes no new version. NotFound, Conflict, Invalid."""
        stored = self.find(ref)
        body = _own_copy(patch.body)
        metadata = object_field(ref.kind, body, "metadata")
        check_type(ref.kind, body)
        check_preconditions(stored, ref, metadata)
        if patch.subresource == "status":
            if not has_status_resource(ref.kind):
                raise answers.not_found(ref)
            raw = _apply(stored, patch.type, {"status": body.get("status", {})})
            return stored if raw is stored.raw else self._write_status(stored, raw)
        raw = _apply(stored, patch.type, {**body, "metadata": client_fields(metadata)})
        return stored if raw is stored.raw else self._write(stored, with_server_fields(ref.kind, raw, stored.raw))

    def update(self, ref: Ref, body: Mapping[str, Any]) -> Stored:
        """Put the body in the object's place; a write that changes nothing makes no new version. NotFound, Conflict, Invalid."""
        stored = self.find(ref)
        raw = _own_copy(body)
        raw["metadata"] = object_field(ref.kind, raw, "metadata")
        check_type(ref.kind, raw)
        check_preconditions(stored, ref, raw["metadata"])
        if definition_of(ref.kind) is not None and not raw["metadata"].get("resourceVersion"):
            raise answers.unconditional_update(ref)
        return self._write(stored, _sharing(with_server_fields(ref.kind, raw, stored.raw), stored.raw))

    def delete(self, ref: Ref, uid: str, grace_period_seconds: int | None) -> None:
        """Delete the object, or mark it terminating if it has finalizers or is a bound pod with a grace period. NotFound, Conflict."""
        stored = self.find(ref)
        found = stored.raw["metadata"]["uid"]
        if uid and uid != found:
            raise answers.other_uid(ref.kind.plural_group, ref.name, uid, found)
        remains = deleted(ref.kind, stored.raw, grace_period_seconds, self._clock.now())
        if remains is stored.raw:
            return
        raw = _own_top(stored.raw if remains is None else remains)
        self._stamp(raw)
        if remains is None:
            self._remove(stored, raw)
        else:
            self._replace(stored, raw)

    def remove_all(self, kind: Kind) -> None:
        """Remove all objects of the kind, whatever finalizers they have."""
        for stored in list(self.kind(kind).objects.values()):
            raw = _own_top(stored.raw)
            self._stamp(raw)
            self._remove(stored, raw)

    def evict(self, ref: Ref, uid: str, grace_period_seconds: int | None) -> None:
        """Delete the pod if its disruption budget allows it, and count that there. NotFound, Conflict, errors of `budget_after`."""
        stored = self.find(ref)
        if may_disrupt(stored.raw):
            budgets = [budget for budget in self.kind(POD_DISRUPTION_BUDGET).objects.values() if covers(budget.object(), stored.object())]
            if (spent := budget_after(budgets, stored.raw, self._now())) is not None:
                self._write_status(budgets[0], spent)
        found = stored.raw["metadata"]
        if uid and uid != found["uid"]:
            raise answers.recreated(ref.name, uid, found["uid"])
        if "deletionTimestamp" not in found:
            self._write_status(stored, evicted(stored.raw, self._now()))
        self.delete(ref, uid, grace_period_seconds)

    def bind(self, binding: Binding) -> None:
        """Bind the pod. NotFound; Conflict: why it cannot be bound."""
        key = key_of(binding.namespace, binding.name)
        stored = self._pods.objects.get(key)
        if stored is None:
            raise answers.not_found(Ref(POD, binding.namespace, binding.name))
        raw, decoded = stored.raw, stored.decoded
        check_bindable(raw, binding)
        version = str(self.version + 1)
        status, restated = self._bound_statuses.bound(raw.get("status") or {}, self._now())
        metadata, spec = {**raw["metadata"], "resourceVersion": version}, {**(raw.get("spec") or {}), "nodeName": binding.node}
        if binding.annotations:
            metadata["annotations"] = {**(metadata.get("annotations") or {}), **binding.annotations}
        if isinstance(decoded, Pod) and restated is not None:
            known, wanted = replace(decoded.metadata, resource_version=version), replace(decoded.spec, node_name=binding.node)
            if binding.annotations:
                known = replace(known, annotations=metadata["annotations"])
            decoded = replace(decoded, metadata=known, spec=wanted, status=restated)
        else:
            decoded = None
        self.version += 1
        new = self._pods.objects[key] = Stored(POD, {**raw, "metadata": metadata, "spec": spec, "status": status}, self.version, decoded)
        self._pods.record(HistoryEntry(self.version, stored, new))

    def _shape(self, kind: Kind, raw: Raw, old: Raw | None = None, written: str = "") -> None:
        """Complete a custom resource in place by its definition. Invalid: all that the definition refuses.

        written: the subresource that is written; messages leave it out of the names of fields, as the API server's do.
        """
        definition = definition_of(kind)
        if definition is None:
            return
        if old is None and definition.has_status:
            raw.pop("status", None)  # a new object has none until its status subresource is written
        if errors := definition.shape(raw, old):
            if written:
                shorter = {error.path: error.path.removeprefix(written).removeprefix(".") for error in errors}
                errors = [replace(error, message=error.message.replace(error.path, shorter[error.path], 1)) for error in errors]
            raise answers.invalid(kind, raw["metadata"]["name"], errors)

    def _now(self) -> str:
        """Write the present second; many writes happen at one moment of virtual time."""
        moment = self._clock.now()
        if moment != self._moment:
            self._moment, self._timestamp = moment, rfc3339(moment)
        return self._timestamp

    def _priority_class(self, name: str) -> Raw | None:
        """Find a class by name; "" stands for the global default, if there is one."""
        if name:
            found = self._priority_classes.objects.get(name)
            return None if found is None else found.raw
        writes = self._priority_classes.end
        if writes != self._global_default[0]:
            self._global_default = (writes, global_default(stored.raw for stored in self._priority_classes.objects.values()))
        return self._global_default[1]

    def _stamp(self, raw: Raw) -> None:
        """Write the version of the write that is about to be made. raw's metadata must be its own."""
        raw["metadata"]["resourceVersion"] = str(self.version + 1)

    def _write(self, stored: Stored, raw: Raw) -> Stored:
        """Make `raw` the state of the object if it differs from the stored one, with which it shares what did not change. Invalid."""
        self._shape(stored.kind, raw, stored.raw)
        if not _differs(stored.raw, raw):
            return stored
        raw["metadata"] = dict(raw["metadata"])
        if _desired_changed(stored.kind, stored.raw, raw):
            raw["metadata"]["generation"] += 1
        self._stamp(raw)
        decoded = self._checker.checked(stored.kind, raw)
        return self._remove(stored, raw, decoded) if finished(raw) else self._replace(stored, raw, decoded)

    def _write_status(self, stored: Stored, raw: Raw) -> Stored:
        """Make `raw` the state of the object, which differs from the stored one in its status only. Invalid."""
        self._shape(stored.kind, raw, stored.raw, "status")
        if not _differs(stored.raw, raw):
            return stored
        raw["metadata"] = dict(raw["metadata"])
        self._stamp(raw)
        known = stored.decoded
        if isinstance(known, Pod):
            return self._replace(stored, raw, self._checker.checked_status(known, raw))
        return self._replace(stored, raw, self._checker.checked(stored.kind, raw))

    def _replace(self, stored: Stored, raw: Raw, decoded: Object | None = None) -> Stored:
        """Put the stamped state in the place of the stored one."""
        self.version += 1
        new = Stored(stored.kind, raw, self.version, decoded)
        store = self._kinds[stored.kind]
        store.objects[_key(raw)] = new
        store.record(HistoryEntry(self.version, stored, new))
        return new

    def _remove(self, stored: Stored, raw: Raw, decoded: Object | None = None) -> Stored:
        """Take the object out; watches get `raw`, its last state, stamped with the version of the deletion."""
        self.version += 1
        last = Stored(stored.kind, raw, self.version, decoded)
        store = self.kind(stored.kind)
        del store.objects[_key(raw)]
        store.record(HistoryEntry(self.version, stored, None, last))
        return last


def _key(raw: Raw) -> str:
    metadata = raw["metadata"]
    return key_of(metadata.get("namespace", ""), metadata["name"])


def _own_top(raw: Raw) -> Raw:
    """Copy the object's top level and its metadata, so that both can be changed; the rest is shared."""
    return {**raw, "metadata": dict(raw["metadata"])}


def _own_copy(body: Mapping[str, Any]) -> Raw:
    """Copy what a client sent, so that neither side sees the other's later changes. Invalid: it is not JSON."""
    try:
        copy = msgspec.to_builtins(body, str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"the body of the request is not JSON: {error}") from error
    if not isinstance(copy, dict):
        raise Invalid(f"the body of the request must be an object, not {type(body).__name__}")
    return copy


def _apply(stored: Stored, patch_type: PatchType, body: Raw) -> Raw:
    """Return the patched state: the stored one itself when nothing changes."""
    if patch_type is PatchType.STRATEGIC and stored.kind.group not in BUILT_IN_GROUPS:
        accepted = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        raise Invalid(f"the body of the request was in an unknown format - accepted media types include: {accepted}")
    try:
        patched: Raw = merge_patch(stored.raw, body) if patch_type is PatchType.MERGE else strategic_merge_patch(stored.raw, body)
    except (PatchError, RecursionError) as error:
        raise Invalid(str(error)) from error
    return patched


def _sharing(new: Raw, old: Raw) -> Raw:
    """Return the new state with each field that is unchanged shared with the old state."""
    return {key: old[key] if key in old and canonical(old[key]) == canonical(value) else value for key, value in new.items()}


def _differs(old: Raw, new: Raw) -> bool:
    """Answer whether a patch changed anything: other fields are compared by identity, metadata, which is always built anew, by value."""
    return old.keys() != new.keys() or any(new[key] is not old[key] and (key != "metadata" or new[key] != old[key]) for key in old)


def _desired_changed(kind: Kind, old: Raw, new: Raw) -> bool:
    """Answer whether anything but metadata, and status if that is a subresource, changed: metadata.generation counts such changes."""
    apart = {"metadata", "status"} if has_status_resource(kind) else {"metadata"}
    return any(old.get(key) is not new.get(key) for key in old.keys() | new.keys() if key not in apart)
