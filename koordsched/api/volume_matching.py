"""Which volume suits which claim, nodes aside: k8s.io/component-helpers/storage/volume at v0.35.

Callers: VolumeBinding, for claims that wait for their pod; the embedded cluster's volume controller, for those that do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.quantity import QuantityError, nano
from koordsched.api.selectors import label_selector_matcher

if TYPE_CHECKING:
    from koordsched.api.core import PersistentVolume, PersistentVolumeClaim
    from koordsched.api.selectors import LabelSelectorMatcher

STORAGE = "storage"
AVAILABLE = "Available"
FILESYSTEM = "Filesystem"


class ClaimRequest(msgspec.Struct, frozen=True):
    """What a claim asks of a volume; the size is in nano-bytes, None when it names none."""

    size: int | None
    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    selector: LabelSelectorMatcher | None


def claim_request(claim: PersistentVolumeClaim) -> ClaimRequest:
    """Read what the claim asks for. QuantityError (with its path), SelectorError."""
    spec = claim.spec
    size = spec.resources.requests.get(STORAGE)
    try:
        nanos = None if size is None else nano(size)
    except QuantityError as mistake:
        raise mistake.at(f"spec.resources.requests[{STORAGE}]") from None
    return ClaimRequest(
        size=nanos,
        mode=spec.volume_mode or FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        access_modes=frozenset(spec.access_modes),
        selector=None if spec.selector is None else label_selector_matcher(spec.selector),
    )


def volume_size(volume: PersistentVolume) -> int:
    """Return the volume's size in nano-bytes. QuantityError (with its path)."""
    try:
        return nano(volume.spec.capacity.get(STORAGE, 0))
    except QuantityError as mistake:
        raise mistake.at(f"spec.capacity[{STORAGE}]") from None


def can_hold(volume: PersistentVolume, size: int, request: ClaimRequest) -> bool:
    """Answer whether a volume of this size that is meant for the claim is good enough for it."""
    return (
        size >= (request.size or 0)
        and (volume.spec.volume_mode or FILESYSTEM) == request.mode
        and (volume.spec.volume_attributes_class_name or "") == request.attributes_class
    )


def suits(volume: PersistentVolume, size: int, request: ClaimRequest) -> bool:
    """Answer whether a volume of this size that is not bound may be given to the claim."""
    if not can_hold(volume, size, request) or not request.access_modes <= set(volume.spec.access_modes):
        return False
    return request.selector is None or request.selector.matches(volume.metadata.labels)
