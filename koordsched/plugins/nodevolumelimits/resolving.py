"""Which volume a claim or an attachment stands for, and on which objects that depends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.volumes import claim_class
from koordsched.plugins.nodevolumelimits.migration import Attached, attached_volume, driver_of

if TYPE_CHECKING:
    from koordsched.api.storage import VolumeAttachment
    from koordsched.framework.volumes import VolumeObjects

Cause = tuple[str, str]
"""An object that an answer depends on: kind and key."""

CLAIM, VOLUME, CLASS, ATTACHMENT = "claim", "volume", "class", "attachment"

UNBOUND = "unbound claim "
"""What the handle of a volume that does not exist yet begins with: no driver calls one so."""


class Resolved(msgspec.Struct, frozen=True):
    """A volume, or None when nothing is to be counted; and what to look at again when it changes."""

    volume: Attached | None
    causes: tuple[Cause, ...]


NOTHING = Resolved(None, ())


def resolve_claim(objects: VolumeObjects, key: str) -> Resolved:
    """Return the claim's volume; while it has none, one that its class's driver is going to make."""
    claim = objects.claims.get(key)
    causes: list[Cause] = [(CLAIM, key)]
    if claim is None:
        return Resolved(None, tuple(causes))
    name = claim.spec.volume_name
    if name:
        causes.append((VOLUME, name))
        volume = objects.volumes.get(name)
        if volume is not None:
            return Resolved(attached_volume(volume), tuple(causes))
    wanted = claim_class(claim)
    if not wanted:
        return Resolved(None, tuple(causes))
    causes.append((CLASS, wanted))
    storage_class = objects.classes.get(wanted)
    driver = driver_of(storage_class.provisioner) if storage_class is not None else ""
    return Resolved((driver, UNBOUND + key) if driver else None, tuple(causes))


def resolve_attachment(objects: VolumeObjects, attachment: VolumeAttachment) -> Resolved:
    """Return the volume that is attached; None when it is no persistent volume that a CSI driver knows."""
    name = attachment.spec.source.persistent_volume_name
    causes: tuple[Cause, ...] = ((ATTACHMENT, attachment.metadata.name),)
    if not name or not attachment.spec.attacher:
        return Resolved(None, causes)
    volume = objects.volumes.get(name)
    found = attached_volume(volume) if volume is not None else None
    return Resolved((attachment.spec.attacher, found[1]) if found else None, (*causes, (VOLUME, name)))
