"""Merge patch (RFC 7386) and strategic merge patch on JSON values.

Nothing is changed in place: the result shares every part with the target that the patch does not change, and IS the target when the
patch changes nothing. The embedded cluster relies on that to see, by identity, what a write changed. Parts of a patch become parts of the
result, so the caller must not change the patch afterwards (the cluster passes a copy).
"""

from __future__ import annotations

from typing import Any

_ABSENT: Any = object()

MERGE_KEYS = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "ephemeralContainers": "name",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumes": "name",
}
"""Lists of core objects that a strategic patch merges by an element's key; any other list is replaced whole."""

PRIMITIVE_SETS = frozenset({"finalizers"})
"""Lists of plain values that a strategic patch adds to."""


class PatchError(Exception):
    """The patch is malformed. The text names the part that is."""


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply an RFC 7386 merge patch."""
    if not isinstance(patch, dict):
        return target if _same(target, patch) else patch
    base = target if isinstance(target, dict) else {}
    changes = {}
    for key, value in patch.items():
        old = base.get(key, _ABSENT)
        new = _ABSENT if value is None else merge_patch(old, value)
        if new is not old:
            changes[key] = new
    return _changed(target, changes)


def strategic_merge_patch(target: Any, patch: Any, *, field: str = "") -> Any:
    """Apply a strategic merge patch as the API server does to core objects; `field` is the name of the field that target is the value of.

    Lists of `MERGE_KEYS` are merged by key, with new elements at the end: `$setElementOrder` is accepted and has no effect. PatchError:
    an unknown directive, or an element without its merge key.
    """
    if isinstance(patch, list):
        return _merge_list(target, patch, field)
    if not isinstance(patch, dict):
        return target if _same(target, patch) else patch
    if patch.get("$patch") == "replace":
        value = {key: value for key, value in patch.items() if key != "$patch"}
        return target if _same(target, value) else value
    base = target if isinstance(target, dict) else {}
    changes: dict[str, Any] = {}
    for key, value in patch.items():
        if type(value) is str and not key.startswith("$"):  # most of a status patch, without a call for each
            if base.get(key) != value:
                changes[key] = value
            continue
        if key.startswith("$"):
            name, new = _directive({**base, **changes}, key, value)
        else:
            name = key
            new = _ABSENT if _deletes(value) else strategic_merge_patch(changes.get(key, base.get(key, _ABSENT)), value, field=key)
        if new is not base.get(name, _ABSENT):
            changes[name] = new
    return _changed(target, changes)


def _changed(target: Any, changes: dict[str, Any]) -> Any:
    if not isinstance(target, dict):
        return {key: value for key, value in changes.items() if value is not _ABSENT}
    if not changes:
        return target
    result = {**target, **changes}
    for key, value in changes.items():
        if value is _ABSENT:
            del result[key]
    return result


def _same(left: Any, right: Any) -> bool:
    """Compare as JSON: True is not 1."""
    return type(left) is type(right) and bool(left == right)


def _deletes(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and value.get("$patch") == "delete")


def _directive(base: dict[str, Any], key: str, value: Any) -> tuple[str, Any]:
    """Carry out `$name/field` beside a field; return the field and its new value."""
    name, _, field = key.partition("/")
    old = base.get(field, _ABSENT)
    if name == "$setElementOrder":
        return field, old
    if name == "$deleteFromPrimitiveList" and isinstance(value, list):
        kept = [item for item in old if item not in value] if isinstance(old, list) else []
        return field, old if old is _ABSENT or kept == old else kept
    raise PatchError(f"unknown directive in a strategic merge patch: {key}: {value!r}")


def _merge_list(target: Any, patch: list[Any], field: str) -> Any:
    old = target if isinstance(target, list) else []
    if field in PRIMITIVE_SETS:
        new = [*old, *(item for item in patch if item not in old)]
    elif field in MERGE_KEYS and {"$patch": "replace"} not in patch:
        new = _merge_by_key(old, patch, MERGE_KEYS[field])
    else:
        new = [item for item in patch if item != {"$patch": "replace"}]
    return target if _same(target, new) else new


def _merge_by_key(old: list[Any], patch: list[Any], merge_key: str) -> list[Any]:
    merged: dict[Any, Any] = {}
    for position, item in enumerate(old):
        key = _merge_key(item, merge_key)
        merged[(position,) if key is None else key] = item  # an element without key is left alone
    for item in patch:
        key = _merge_key(item, merge_key)
        if key is None:
            raise PatchError(f"map: {item!r} does not contain declared merge key: {merge_key}")
        if _deletes(item):
            merged.pop(key, None)
        else:
            merged[key] = strategic_merge_patch(merged.get(key, _ABSENT), item)
    return list(merged.values())


def _merge_key(item: Any, merge_key: str) -> str | None:
    key = item.get(merge_key) if isinstance(item, dict) else None
    return key if isinstance(key, str) else None
