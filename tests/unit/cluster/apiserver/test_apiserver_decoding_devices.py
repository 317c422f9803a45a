"""Devices out of JSON: as msgspec alone would read them, with what nodes of equal hardware have in common read once."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordsched.api.kinds import DEVICE
from koordsched.api.koordinator import device_decoding
from koordsched.api.koordinator.device_decoding import KEPT, LONGEST
from koordsched.api.koordinator.devices import Device, DeviceInfo, DeviceSpec
from koordsched.cluster.apiserver.decoding import KindDecoder

GPU: dict[str, Any] = {
    "type": "gpu",
    "id": "GPU-1",
    "minor": 0,
    "moduleID": 3,
    "health": True,
    "labels": {"model": "a"},
    "resources": {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory": "80Gi"},
    "topology": {"socketID": 0, "nodeID": 1, "pcieID": "p1", "busID": "0000:01:00.0"},
    "vfGroups": [{"labels": {"use": "a"}, "vfs": [{"minor": 1, "busID": "0000:01:00.1"}]}],
    "conditions": [{"type": "Healthy", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
}


def body(name: str, *devices: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": DEVICE.api_version,
        "kind": DEVICE.kind,
        "metadata": {"name": name, "uid": name, "resourceVersion": "7", "labels": {"model": "a"}, **metadata},
        "spec": {"devices": list(devices)},
    }


def read(raw: dict[str, Any]) -> Device:
    return cast("Device", KindDecoder(DEVICE).object(msgspec.json.encode(raw)))


def test_the_fields_that_are_tried_are_all_that_a_device_has() -> None:
    assert {field.encode_name for field in msgspec.structs.fields(DeviceInfo)} == GPU.keys()


texts = st.sampled_from(["", "GPU-1", "GPU-2", 'a"b', "a\\b", "é", '"id":"GPU-1"', "0"])
labels = st.dictionaries(st.sampled_from(["id", "a"]), texts, max_size=2)
infos = st.fixed_dictionaries(
    {},
    optional={name: st.just(value) for name, value in GPU.items()}
    | {"id": texts, "labels": labels, "vfGroups": st.builds(lambda found: [{"labels": found, "vfs": [{"minor": 1}]}], labels)},
)
devices = st.lists(st.lists(infos, max_size=3), min_size=1, max_size=3)


@given(devices, st.booleans())
def test_whatever_ids_and_labels_say_it_is_what_msgspec_reads(of_nodes: list[list[dict[str, Any]]], spaced: bool) -> None:
    for i, listed in enumerate(of_nodes):
        raw = body(f"n{i}", *listed)
        text = msgspec.json.encode(raw)
        found = cast("Device", KindDecoder(DEVICE).object(msgspec.json.format(text, indent=1) if spaced else text))
        assert found == msgspec.convert(raw, Device)
        assert msgspec.to_builtins(found) == msgspec.to_builtins(msgspec.convert(raw, Device))


def test_devices_have_all_but_their_ids_in_common() -> None:
    first, second = (read(body(name, GPU | {"id": f"GPU-{name}"}, GPU | {"id": "nic", "minor": 1})) for name in ("n1", "n2"))
    assert first.spec.common is second.spec.common is not None
    assert [info.id for info in second.spec.devices] == ["GPU-n2", "nic"]
    for part in ("labels", "resources", "topology", "vf_groups", "conditions"):
        assert getattr(first.spec.devices[0], part) is getattr(second.spec.devices[0], part)
    assert first.metadata.labels is second.metadata.labels
    assert first.spec.common is not read(body("n3", GPU | {"health": False}, GPU | {"minor": 1})).spec.common


def test_a_label_that_is_called_id_belongs_to_the_device() -> None:
    first, second = (read(body("n1", GPU | {"labels": {"id": label}})) for label in ("x", "y"))
    assert (first.spec.devices[0].labels, second.spec.devices[0].labels) == ({"id": "x"}, {"id": "y"})
    assert first.spec.common is second.spec.common is None


def test_a_changed_copy_has_nothing_in_common() -> None:
    spec = read(body("n1", GPU)).spec
    assert spec.common is not None
    assert msgspec.structs.replace(spec, devices=()).common is None
    assert DeviceSpec(spec.devices) == spec


def test_events_of_a_watch_have_devices_in_common_with_the_list() -> None:
    listed = read(body("n1", GPU))
    line = msgspec.json.encode({"type": "MODIFIED", "object": body("n1", GPU | {"id": "GPU-9"})}) + b"\n"
    [event] = KindDecoder(DEVICE).batch(line).events
    changed = cast("Device", event.object)
    assert type(changed) is Device
    assert changed.spec.common is listed.spec.common
    assert changed.spec.devices[0].id == "GPU-9"


@pytest.mark.parametrize("raw", [{"spec": None}, {"spec": {"devices": None}}, {"spec": {}}, {}])
def test_nulls_count_as_absent(raw: dict[str, Any]) -> None:
    assert read({**body("n1"), **raw}).spec.devices == ()


def test_a_field_of_another_type_is_named() -> None:
    with pytest.raises(ValueError, match=r"spec\.devices\[1\]\.minor"):
        read(body("n1", GPU, GPU | {"minor": "first"}))


def test_long_texts_and_the_oldest_of_many_are_not_kept() -> None:
    long = read(body("n1", GPU | {"labels": {"a": "x" * LONGEST}}))
    assert long.spec.common is None
    before = read(body("n1", GPU)).spec.common
    assert read(body("n1", GPU)).spec.common is before
    for minor in range(KEPT):
        read(body("n1", GPU | {"minor": minor + 1}))
    assert read(body("n1", GPU)).spec.common is not before
    assert device_decoding._common.cache_info().currsize <= KEPT
