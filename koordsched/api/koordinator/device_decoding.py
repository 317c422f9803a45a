"""Devices out of JSON. Nodes of equal hardware have equal devices but for their ids: what is said of those is read once, and is one object.

A Device of eight GPUs and four interfaces is 6 KB of text and 17 KB of objects; most of these are in common, and so is what is
worked out of them (`CommonDevices`, bench_start_up.py). A text that is long, or one of very many, is read as ever.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
from msgspec.structs import force_setattr

from koordsched.api.koordinator.devices import CommonDevices, Device, DeviceSpec
from koordsched.api.meta import Object

KEPT = 256  # texts
LONGEST = 32 << 10
"""Bytes of a text that is kept."""
ID = b'"id":"'
QUOTE, ESCAPE = b'"', b"\\"


class DeviceText(Object):
    """A Device whose spec is still text."""

    spec: msgspec.Raw = msgspec.Raw()


def device_of(text: DeviceText) -> Device:
    """Read the spec. What msgspec raises, when it is not what it must be. `text` is new: its metadata may still be changed."""
    meta = text.metadata
    force_setattr(meta, "labels", _labels(tuple(meta.labels.items())))
    spec = bytes(text.spec)
    return Device(api_version=text.api_version, kind=text.kind, metadata=meta, spec=_spec(spec) if spec else DeviceSpec())


def _spec(text: bytes) -> DeviceSpec:
    first, *others = text.split(ID) if len(text) <= LONGEST else [text]
    ids, between = [], [first]
    for other in others:
        found, _, rest = other.partition(QUOTE)
        if ESCAPE in found:
            return _specs.decode(text)
        ids.append(found.decode())
        between.append(rest)
    common = _common(tuple(between)) if ids else None
    return _specs.decode(text) if common is None else common.spec_with(ids)


@lru_cache(maxsize=KEPT)
def _common(between: tuple[bytes, ...]) -> CommonDevices | None:
    """Return the devices of a text, given what stands around their ids; None when these are not the ids of the devices, each its own."""
    last = len(between) - 1
    text = b"".join([b'%b%b%d"' % (part, ID, place) if place < last else part for place, part in enumerate(between)])
    devices = _specs.decode(text).devices
    return CommonDevices(devices) if [info.id for info in devices] == [str(place) for place in range(last)] else None


@lru_cache(maxsize=KEPT)
def _labels(items: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(items)


_specs = msgspec.json.Decoder(DeviceSpec)
