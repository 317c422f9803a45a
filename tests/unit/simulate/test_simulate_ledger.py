"""The ledger of what became of each pod."""

from __future__ import annotations

from support.builders import pod

from koordsched.cluster.mirror import Arrival, FinalState
from koordsched.simulate.ledger import Ledger, LedgerHandler

A = pod("a").cpu("500m").memory("1Ki").request("example.com/x", 2)


def test_a_bound_pod_counts_once_whatever_else_changes() -> None:
    ledger = Ledger()
    ledger.put(A.build())
    ledger.put(A.on("n1").build())
    ledger.put(A.on("n1").label("x", "y").build())
    assert dict(ledger.requested) == {"cpu": 500, "memory": 1024, "example.com/x": 2, "pods": 1}
    assert ledger.decided == 1


def test_a_pod_that_leaves_gives_back_what_it_took_and_the_peak_remains() -> None:
    ledger = Ledger()
    for name in ("a", "b"):
        ledger.put(pod(name).cpu("1").on("n1").build())
    ledger.put(pod("a").cpu("1").on("n1").build(), gone=True)
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


def test_the_handler_feeds_it_and_tells_of_pods_that_have_a_node() -> None:
    told: list[int] = []
    ledger = Ledger()
    handler = LedgerHandler(ledger, lambda: told.append(ledger.decided))
    handler.on_add(A.build(), Arrival.LATER)
    handler.on_update(A.build(), A.on("n1").build())
    handler.on_delete(A.on("n1").build(), FinalState.KNOWN)
    assert told == [1]
    assert ledger.deleted == {"default/a"}
