"""What a cache says that it believes of a node, and that a row that is written anew keeps what belongs to other rows."""

from __future__ import annotations

from support.builders import node, pod
from support.described import described

from koordsched.cache.cache import Cache


def test_all_facts_of_a_node_are_described() -> None:
    cache = Cache()
    cache.set_node(node("n1").cpu("4").label("zone", "a").taint("k", "NoSchedule", "v").image(1000, "big:1").cordoned().build())
    cache.set_pod(pod("p").uid("u1").cpu("1").host_port(80).info(), "n1")
    (facts,) = described(cache).values()
    ports = facts.pop("ports")
    assert [(port.protocol, port.port) for port in ports] == [("TCP", 80)]
    resources = facts.pop("resources")
    assert (resources["cpu"], resources["pods"][1]) == ((4000, 1000), 1)
    assert facts == {
        "live": True,
        "labels": {"kubernetes.io/hostname": "n1", "zone": "a"},
        "taints": [("k", "v", "NoSchedule")],
        "cordoned": True,
        "images": ["big:1"],
        "pods": ["u1"],
    }


def test_a_row_that_is_written_anew_keeps_ports_that_two_pods_share_there_and_elsewhere() -> None:
    cache = Cache()
    for name in ("n1", "n2"):
        cache.set_node(node(name).build())
        for i in range(2):
            cache.set_pod(pod(f"{name}-{i}").uid(f"{name}-{i}").host_port(80).info(), name)
    before = described(cache)
    cache.rewrite("n1")
    assert described(cache) == before
    for name in ("n1", "n2"):
        cache.remove_pod(f"{name}-0")
        assert [port.port for port in described(cache)[name]["ports"]] == [80], "the other pod holds it still"
        cache.remove_pod(f"{name}-1")
        assert described(cache)[name]["ports"] == []
