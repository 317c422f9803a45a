"""The history of what became of each pod."""

from __future__ import annotations

from support.builders import pod

from koordsched.cluster.object_store import Arrival, FinalState
from koordsched.simulate.pod_history import PodHistory, PodHistoryHandler

A = pod("a").cpu("500m").memory("1Ki").request("example.com/x", 2)


def test_a_bound_pod_counts_once_whatever_else_changes() -> None:
    history = PodHistory()
    history.put(A.build())
    history.put(A.on("n1").build())
    history.put(A.on("n1").label("x", "y").build())
    assert dict(history.requested) == {"cpu": 500, "memory": 1024, "example.com/x": 2, "pods": 1}
    assert history.decided == 1


def test_a_pod_that_leaves_gives_back_what_it_took_and_the_peak_remains() -> None:
    history = PodHistory()
    for name in ("a", "b"):
        history.put(pod(name).cpu("1").on("n1").build())
    history.put(pod("a").cpu("1").on("n1").build(), gone=True)
    assert (history.requested["cpu"], history.requested["pods"]) == (1000, 1)
    assert history.peak == {"cpu": 2000, "pods": 2}
    assert history.deleted == {"default/a"}
    assert history.pods["default/a"].spec.node_name == "n1"


def test_a_pending_pod_that_leaves_changes_no_sum() -> None:
    history = PodHistory()
    history.put(A.build())
    history.put(A.build(), gone=True)
    assert sum(history.requested.values()) == 0
    assert history.deleted == {"default/a"}


def test_a_pod_created_again_under_its_name_counts_again() -> None:
    history = PodHistory()
    history.put(A.on("n1").build())
    history.put(A.on("n1").build(), gone=True)
    history.put(A.build())
    assert history.deleted == set()
    assert history.requested["cpu"] == 0
    history.put(A.on("n2").build())
    assert history.requested["cpu"] == 500


def test_the_version_grows_when_a_pod_is_bound_or_deleted_only() -> None:
    history = PodHistory()
    history.put(A.build())
    history.put(A.label("x", "y").build())
    assert history.version == 0
    history.put(A.on("n1").build())
    history.put(A.on("n1").build(), gone=True)
    assert history.version == 2


def test_the_handler_feeds_it_and_reports_pods_that_have_a_node() -> None:
    reported: list[int] = []
    history = PodHistory()
    handler = PodHistoryHandler(history, lambda: reported.append(history.decided))
    handler.on_add(A.build(), Arrival.LATER)
    handler.on_update(A.build(), A.on("n1").build())
    handler.on_delete(A.on("n1").build(), FinalState.KNOWN)
    assert reported == [1]
    assert history.deleted == {"default/a"}
