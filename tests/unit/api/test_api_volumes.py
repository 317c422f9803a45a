"""What is read of a pod's volumes, and which volume suits which claim."""

from __future__ import annotations

import pytest
from support.builders import pod
from support.volumes import claim, volume, with_volumes

from koordsched.api.quantity import QuantityError
from koordsched.api.volume_matching import claim_request, suits, volume_size
from koordsched.api.volumes import belongs_to, claim_class, claimed_by, is_bound, is_for, pod_volumes, volume_class

BETA = "volume.beta.kubernetes.io/storage-class"


def test_volumes_that_no_plugin_looks_at_are_left_out() -> None:
    assert pod_volumes(pod().build()) is None
    plain = with_volumes(
        pod(), {"name": "token", "projected": {}}, {"name": "cfg", "configMap": {"name": "x"}}, {"name": "t", "emptyDir": {}}
    )
    assert pod_volumes(plain.build()) is None
    assert plain.info().volumes is None


def test_claims_disks_and_drivers_are_kept_each_claim_once() -> None:
    made = with_volumes(
        pod("p", "ns"),
        {"name": "a", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "tmp", "ephemeral": {}},
        {"name": "d", "cinder": {"volumeID": "x"}},
        {"name": "i", "csi": {"driver": "z"}},
        {"name": "j", "csi": {"driver": "y"}},
    )
    found = made.info().volumes
    assert found is not None
    assert [(use.key, use.is_ephemeral) for use in found.claims] == [("ns/c", False), ("ns/p-tmp", True)]
    assert [type(disk).__name__ for disk in found.disks] == ["CinderVolume"]
    assert found.drivers == ("y", "z")
    assert found.uses_claim("ns/c")
    assert not found.uses_claim("other/c")
    assert found == with_volumes(made).info().volumes
    assert hash(found) == hash(made.info().volumes)


def test_the_beta_annotation_names_the_class() -> None:
    assert claim_class(claim("c", storage_class="a")) == "a"
    assert claim_class(claim("c", storage_class="a", annotations={BETA: "b"})) == "b"
    assert claim_class(claim("c")) == ""
    assert volume_class(volume("v", storage_class="a")) == "a"


def test_a_claim_is_bound_when_the_controller_says_so() -> None:
    assert is_bound(claim("c", volume="v"))
    assert not is_bound(claim("c", volumeName="v"))
    assert not is_bound(claim("c", annotations={"pv.kubernetes.io/bind-completed": "yes"}))


def test_a_volume_names_its_claim_with_or_without_uid() -> None:
    mine = claim("c")
    assert claimed_by(volume("v")) == ""
    assert claimed_by(volume("v", claimed="c")) == "default/c"
    assert is_for(volume("v", claimed="c"), mine)
    assert not is_for(volume("v", claimed="d"), mine)
    for uid, expected in {mine.metadata.uid: True, "another": False}.items():
        assert is_for(volume("v", claimRef={"namespace": "default", "name": "c", "uid": uid}), mine) is expected


def test_an_ephemeral_claim_belongs_to_its_controller() -> None:
    volumes = with_volumes(pod("p"), {"name": "t", "ephemeral": {}}).info().volumes
    assert volumes is not None
    use = volumes.claims[0]

    def owned(**owner: object) -> bool:
        return belongs_to(claim("p-t", metadata={"ownerReferences": [{"kind": "Pod", "name": "p", "controller": True, **owner}]}), use)

    assert owned(uid="uid-default-p")
    assert owned()
    assert not owned(uid="another")
    assert not owned(controller=False)
    assert not owned(kind="ReplicaSet")


def test_a_request_that_cannot_be_read_names_its_path() -> None:
    with pytest.raises(QuantityError, match=r"spec.resources.requests\[storage\]"):
        claim_request(claim("c", size="much"))
    with pytest.raises(QuantityError, match=r"spec.capacity\[storage\]"):
        volume_size(volume("v", size="much"))


def test_a_claim_without_size_takes_any() -> None:
    request, offered = claim_request(claim("c", size=None)), volume("v", size="1")
    assert suits(offered, volume_size(offered), request)
