"""The ledger of what became of each pod."""

from __future__ import annotations

from support.builders import pod

from koordsched.api.core import Pod
from koordsched.api.meta import Object
from koordsched.cluster.port import WatchEvent, WatchEventType
from koordsched.simulate.ledger import Ledger

A = pod("a").cpu("500m").memory("1Ki").request("example.com/x", 2)


def event(kind: WatchEventType, seen: Pod) -> WatchEvent:
    return WatchEvent(kind, seen)


def test_a_bound_pod_counts_once_whatever_else_changes() -> None:
    ledger = Ledger()
    ledger.record([event(WatchEventType.ADDED, A.build()), event(WatchEventType.MODIFIED, A.on("n1").build())])
    ledger.record([event(WatchEventType.MODIFIED, A.on("n1").label("x", "y").build())])
    assert dict(ledger.requested) == {"cpu": 500, "memory": 1024, "example.com/x": 2, "pods": 1}
    assert ledger.decided == 1


def test_a_pod_that_leaves_gives_back_what_it_took_and_the_peak_remains() -> None:
    ledger = Ledger()
    for name in ("a", "b"):
        ledger.put(pod(name).cpu("1").on("n1").build())
    ledger.record([event(WatchEventType.DELETED, pod("a").cpu("1").on("n1").build())])
    assert (ledger.requested["cpu"], ledger.requested["pods"]) == (1000, 1)
    assert ledger.peak == {"cpu": 2000, "pods": 2}
    assert ledger.deleted == {"default/a"}
    assert ledger.pods["default/a"].spec.node_name == "n1"


def test_a_pending_pod_that_leaves_changes_no_sum() -> None:
    ledger = Ledger()
    ledger.put(A.build())
    ledger.put(A.build(), gone=True)
    assert sum(ledger.requested.values()) == 0
    assert ledger.deleted == {"default/a"}


def test_a_pod_created_again_under_its_name_counts_again() -> None:
    ledger = Ledger()
    ledger.put(A.on("n1").build())
    ledger.put(A.on("n1").build(), gone=True)
    ledger.put(A.build())
    assert ledger.deleted == set()
    assert ledger.requested["cpu"] == 0
    ledger.put(A.on("n2").build())
    assert ledger.requested["cpu"] == 500


def test_the_version_grows_when_a_pod_is_bound_or_deleted_only() -> None:
    ledger = Ledger()
    ledger.put(A.build())
    ledger.put(A.label("x", "y").build())
    assert ledger.version == 0
    ledger.put(A.on("n1").build())
    ledger.put(A.on("n1").build(), gone=True)
    assert ledger.version == 2


def test_bookmarks_and_other_objects_are_passed_over() -> None:
    ledger = Ledger()
    bookmark = WatchEvent(WatchEventType.BOOKMARK, Object())
    ledger.record([bookmark])
    assert ledger.pods == {}
