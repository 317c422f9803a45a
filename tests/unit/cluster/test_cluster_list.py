"""Listing objects of the embedded cluster: order, selectors, consistent pages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from support.manifests import pod_manifest

from koordsched.api.kinds import CONFIG_MAP, DEVICE, POD
from koordsched.cluster.port import Gone, Invalid, NotFound, Ref

if TYPE_CHECKING:
    from koordsched.cluster.memory import MemoryCluster
    from koordsched.cluster.port import ListPage


async def create_maps(cluster: MemoryCluster, *names: str) -> None:
    for name in names:
        namespace, _, short = name.rpartition("/")
        await cluster.create(CONFIG_MAP, {"metadata": {"name": short, "namespace": namespace or None}})


def names(page: ListPage) -> list[str]:
    return [obj.metadata.name for obj in page.items]


async def test_a_list_is_in_the_order_of_keys_and_reports_the_version(cluster: MemoryCluster) -> None:
    await create_maps(cluster, "b/x", "a/z", "b/a")
    page = await cluster.list(CONFIG_MAP)
    assert names(page) == ["z", "a", "x"]
    assert page.resource_version == cluster.resource_version
    assert page.continue_token == ""


async def test_a_kind_without_objects_is_an_empty_list(cluster: MemoryCluster) -> None:
    assert names(await cluster.list(DEVICE)) == []


async def test_a_kind_that_is_not_served_is_not_found(cluster: MemoryCluster) -> None:
    cluster.undefine(DEVICE)
    with pytest.raises(NotFound, match="the server could not find the requested resource"):
        await cluster.list(DEVICE)


async def test_pages_come_from_the_moment_of_the_first(cluster: MemoryCluster) -> None:
    await create_maps(cluster, "a", "b", "c", "d", "e")
    first = await cluster.list(CONFIG_MAP, limit=2)
    await create_maps(cluster, "bb", "f")
    await cluster.delete(Ref(CONFIG_MAP, "default", "d"))
    second = await cluster.list(CONFIG_MAP, limit=2, continue_token=first.continue_token)
    third = await cluster.list(CONFIG_MAP, limit=2, continue_token=second.continue_token)
    assert [names(page) for page in (first, second, third)] == [["a", "b"], ["c", "d"], ["e"]]
    assert {page.resource_version for page in (first, second, third)} == {first.resource_version}
    assert third.continue_token == ""


async def test_a_page_can_be_asked_for_again(cluster: MemoryCluster) -> None:
    await create_maps(cluster, "a", "b", "c")
    token = (await cluster.list(CONFIG_MAP, limit=2)).continue_token
    assert [names(await cluster.list(CONFIG_MAP, limit=2, continue_token=token)) for _ in range(2)] == [["c"], ["c"]]


async def test_a_limit_that_is_not_reached_leaves_no_token(cluster: MemoryCluster) -> None:
    await create_maps(cluster, "a", "b")
    assert (await cluster.list(CONFIG_MAP, limit=2)).continue_token == ""


async def test_a_token_expires_after_five_minutes(cluster: MemoryCluster) -> None:
    await create_maps(cluster, "a", "b")
    token = (await cluster.list(CONFIG_MAP, limit=1)).continue_token
    await asyncio.sleep(299)
    assert names(await cluster.list(CONFIG_MAP, limit=1, continue_token=token)) == ["b"]
    await asyncio.sleep(1)
    with pytest.raises(Gone, match="continue parameter is too old"):
        await cluster.list(CONFIG_MAP, limit=1, continue_token=token)


async def test_a_compaction_makes_tokens_useless(cluster: MemoryCluster) -> None:
    await create_maps(cluster, "a", "b")
    token = (await cluster.list(CONFIG_MAP, limit=1)).continue_token
    cluster.compact()
    with pytest.raises(Gone):
        await cluster.list(CONFIG_MAP, limit=1, continue_token=token)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("spec.nodeName=n1", ["bound", "done"]),
        ("spec.nodeName=", ["waiting"]),
        ("status.phase!=Succeeded,status.phase!=Failed", ["bound", "waiting"]),
        ("metadata.name=done", ["done"]),
    ],
)
async def test_a_field_selector_selects(cluster: MemoryCluster, selector: str, found: list[str]) -> None:
    await cluster.create(POD, pod_manifest("waiting"))
    await cluster.create(POD, pod_manifest("bound", nodeName="n1"))
    await cluster.create(POD, pod_manifest("done", nodeName="n1", status={"phase": "Succeeded"}))
    assert names(await cluster.list(POD, field_selector=selector)) == found


async def test_a_field_selector_that_cannot_be_read_is_refused(cluster: MemoryCluster) -> None:
    with pytest.raises(Invalid, match=r'unable to parse "spec.nodeName>1" as a field selector'):
        await cluster.list(POD, field_selector="spec.nodeName>1")
