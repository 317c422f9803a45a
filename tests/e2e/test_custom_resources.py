"""Koordinator's objects on a real API server: they become Structs, and the embedded cluster does with them what the API server does.

What is written goes through both adapters of the port, and what comes of it is compared: objects as stored, and the texts of refusals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from support.both_clusters import Both, Json, on_both
from support.controlplane.definitions import COLLECTION, await_gone, definitions, install
from support.controlplane.plane import ControlPlane
from support.custom_resources import COMPLETED, EXAMPLES, REFUSED, example

from koordsched.api.kinds import DEVICE, ELASTIC_QUOTA, ELASTIC_QUOTA_PROFILE, POD_GROUP, RESERVATION, Kind
from koordsched.api.meta import Object
from koordsched.clock import RealClock
from koordsched.cluster.informer import Informer
from koordsched.cluster.port import Cluster, Patch, Ref

WITHOUT = {DEVICE, POD_GROUP, ELASTIC_QUOTA, ELASTIC_QUOTA_PROFILE}
"""Kinds whose status is part of the object."""


async def replaced(cluster: Cluster, ref: Ref, body: Json) -> Object:
    """Put the body in the place of the object's present version."""
    version = (await cluster.get(ref)).metadata.resource_version
    return await cluster.update(ref, {**body, "metadata": {**body["metadata"], "resourceVersion": version}})


def ref_of(kind: Kind, body: Json) -> Ref:
    return Ref(kind, body["metadata"].get("namespace", ""), body["metadata"]["name"])


def test_what_is_refused_is_refused_in_the_same_words(plane: ControlPlane, tmp_path: Path) -> None:
    async def script(both: Both) -> None:
        differing = {}
        for why, (kind, body) in REFUSED.items():
            real, embedded = await both.on_each(lambda cluster: cluster.create(kind, body))  # noqa: B023  # awaited at once
            if real != embedded or not real.startswith("422 "):
                differing[why] = (real, embedded)
        assert differing == {}, "\n".join(map(repr, differing.items()))

    on_both(plane, tmp_path, script)


def test_what_is_taken_is_stored_alike(plane: ControlPlane, tmp_path: Path) -> None:
    async def script(both: Both) -> None:
        differing = {}
        for why, (kind, body) in COMPLETED.items():
            assert await both.on_each(lambda cluster: cluster.create(kind, body)) == ["", ""], why  # noqa: B023  # awaited at once
            ref = ref_of(kind, body)
            real, embedded = await both.stored(ref)
            if real != embedded or real == body:
                differing[why] = (real, embedded)
            await both.on_each(lambda cluster: cluster.delete(ref))  # noqa: B023
        assert differing == {}, "\n".join(map(repr, differing.items()))

    on_both(plane, tmp_path, script)


def test_objects_of_each_kind_become_structs_with_their_status(plane: ControlPlane, tmp_path: Path) -> None:
    async def script(both: Both) -> None:
        for kind in EXAMPLES:
            body = example(kind)
            ref, status = ref_of(kind, body), body.get("status", {})
            assert await both.on_each(lambda cluster: cluster.create(kind, body)) == ["", ""], kind.kind  # noqa: B023  # awaited at once
            written = await both.on_each(lambda cluster: cluster.patch(ref, Patch({"status": status}, subresource="status")))  # noqa: B023
            without = f'404 {kind.plural_group} "{ref.name}" not found'
            assert written == [without if kind in WITHOUT else ""] * 2
            wanted = msgspec.convert(body, kind.struct)
            for cluster in (both.real, both.embedded):
                found: Any = await cluster.get(ref)
                assert type(found) is kind.struct
                assert msgspec.structs.replace(found, metadata=wanted.metadata) == wanted
                [listed] = (await cluster.list(kind)).items
                assert listed == found
            real, embedded = await both.stored(ref)
            assert real == embedded

    on_both(plane, tmp_path, script)


@pytest.mark.parametrize("kind", [RESERVATION, POD_GROUP], ids=lambda kind: kind.kind)
def test_only_a_status_of_its_own_is_kept_apart(plane: ControlPlane, tmp_path: Path, kind: Kind) -> None:
    async def script(both: Both) -> None:
        body = example(kind)
        ref = ref_of(kind, body)
        label = {"metadata": {"labels": {"a": "b"}}}
        spec = {"unschedulable": False} if kind is RESERVATION else {"minMember": 9}
        for write in (
            lambda cluster: cluster.create(kind, body),
            lambda cluster: cluster.patch(ref, Patch({**label, "status": {"phase": "Failed"}})),
            lambda cluster: cluster.patch(ref, Patch({"spec": spec, "status": {"phase": "Waiting"}}, subresource="status")),
            lambda cluster: cluster.patch(ref, Patch({"status": {"phase": 7}}, subresource="status")),
            lambda cluster: cluster.patch(ref, Patch({"spec": spec})),
            lambda cluster: cluster.update(ref, body),
            lambda cluster: replaced(cluster, ref, {**body, "status": {"phase": "Succeeded"}}),
        ):
            real, embedded = await both.on_each(write)
            assert real == embedded
            as_stored = await both.stored(ref)
            assert as_stored[0] == as_stored[1]
        found: Any = await both.real.get(ref)
        assert found.status.phase == ("Waiting" if kind is RESERVATION else "Succeeded")

    on_both(plane, tmp_path, script)


def test_a_kind_may_be_defined_later_and_removed_again(plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process does so for NodeResourceTopologies (test_numa_definitions.py); here are all kinds, asked for more often."""
    monkeypatch.setattr("koordsched.cluster.informer.PROBE_SECONDS", 0.2)
    rest, manifests = plane.rest(), list(definitions())

    def remove() -> None:
        for manifest in manifests:
            rest.delete(f"{COLLECTION}/{manifest['metadata']['name']}")
        for manifest in manifests:
            await_gone(rest, manifest)

    async def script(both: Both) -> None:
        informers: list[Informer[Object]] = [Informer(both.real, kind, RealClock(), Random(1)) for kind in EXAMPLES]

        async def until(holds: Callable[[Informer[Object]], bool]) -> None:
            async with asyncio.timeout(30):
                while not all(map(holds, informers)):  # noqa: ASYNC110  # a real cluster is waited for
                    await asyncio.sleep(0.05)

        tasks = [asyncio.create_task(informer.run()) for informer in informers]
        try:
            await until(lambda informer: informer.synced.is_set() and not informer.store)
            await asyncio.to_thread(install, rest, manifests)
            for kind in EXAMPLES:
                await both.real.create(kind, example(kind))
            await until(lambda informer: [type(obj) for obj in informer.store.values()] == [informer.kind.struct])
            await asyncio.to_thread(remove)
            await until(lambda informer: not informer.store)
            assert [task for task in tasks if task.done()] == []
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    remove()
    try:
        on_both(plane, tmp_path, script)
    finally:
        install(rest, manifests)
