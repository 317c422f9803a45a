"""How requests are treated on the way: who shares connections, who gives way, and for how long."""

from __future__ import annotations

import pytest

from koordsched.api.kinds import EVENT, LEASE, NODE, POD, Kind
from koordsched.api.meta import Unstructured
from koordsched.cluster.apiserver.calls import Call, Calls, Pool, all_path
from koordsched.cluster.apiserver.limiter import Priority
from koordsched.cluster.apiserver.settings import ConnectionSettings
from koordsched.cluster.port import Binding, Invalid, Patch, PatchType, Ref

CALLS = Calls(ConnectionSettings(request_timeout=30.0, list_timeout=120.0, max_silence=180.0))
IN_A = {"metadata": {"namespace": "a"}}
NGINX = Ref(POD, "web", "nginx")

BIND = CALLS.bind(Binding("web", "nginx", "u", "n"))
CREATE_EVENT = CALLS.create(EVENT, IN_A)
SERIES = CALLS.patch(Ref(EVENT, "a", "e"), Patch({}))
STATUS = CALLS.patch(NGINX, Patch({}, PatchType.STRATEGIC, "status"))
ANNOTATION = CALLS.patch(NGINX, Patch({}))
WATCH = CALLS.watch(POD, 300.0, resource_version="1", field_selector="")
LIST = CALLS.list_page(NODE, field_selector="", limit=500, continue_token="")
STREAM = CALLS.streaming_list(NODE, field_selector="")
DELETE = CALLS.delete(NGINX, uid="", grace_period_seconds=None)
RENEW = CALLS.update(Ref(LEASE, "kube-system", "s"), {})
REPLACE = CALLS.update(NGINX, {})


def test_a_text_that_is_no_utf8_is_refused_before_it_is_sent() -> None:
    """A bearer token of a request to the scheduler may be any bytes."""
    with pytest.raises(Invalid, match=r"^the request holds a text that is no UTF-8: 'utf-8' codec can't encode character"):
        CALLS.create(EVENT, {**IN_A, "note": "\udcff"})


@pytest.mark.parametrize(
    ("call", "priority"),
    [
        (BIND, Priority.HIGH),
        (ANNOTATION, Priority.HIGH),
        (REPLACE, Priority.HIGH),
        (WATCH, Priority.HIGH),
        (LIST, Priority.HIGH),
        (DELETE, Priority.HIGH),
        (CREATE_EVENT, Priority.LOW),
        (SERIES, Priority.LOW),
        (STATUS, Priority.LOW),
    ],
)
def test_what_only_reports_scheduling_gives_way(call: Call, priority: Priority) -> None:
    assert call.priority is priority


@pytest.mark.parametrize(
    ("call", "pool"),
    [
        (BIND, Pool.BIND),
        (WATCH, Pool.WATCH),
        (RENEW, Pool.LEASE),
        (CALLS.get(Ref(LEASE, "a", "b")), Pool.LEASE),
        (CALLS.create(LEASE, IN_A), Pool.LEASE),
        (CALLS.patch(Ref(LEASE, "a", "b"), Patch({})), Pool.LEASE),
        (CREATE_EVENT, Pool.OTHER),
    ],
)
def test_binds_watches_and_leases_have_connections_of_their_own(call: Call, pool: Pool) -> None:
    assert call.pool is pool


@pytest.mark.parametrize(
    ("call", "seconds", "silence"),
    [(BIND, 30.0, None), (LIST, 120.0, None), (WATCH, None, 190.0), (STREAM, 120.0, 30.0), (STATUS, 30.0, None), (DELETE, 30.0, None)],
)
def test_every_request_but_a_watch_has_a_time_limit_and_a_watch_one_for_silence(
    call: Call, seconds: float | None, silence: float | None
) -> None:
    assert (call.seconds, call.silence) == (seconds, silence)


@pytest.mark.parametrize(("call", "needed"), [(BIND, False), (DELETE, False), (STATUS, True), (LIST, True)])
def test_of_binds_and_deletions_only_the_status_counts(call: Call, needed: bool) -> None:
    assert call.needs_answer is needed


@pytest.mark.parametrize(("group", "path"), [("", "/api/v1/things"), ("g.io", "/apis/g.io/v1/things")])
def test_kinds_of_the_core_group_have_a_root_of_their_own(group: str, path: str) -> None:
    kind = Kind(group, "v1", "Thing", "things", namespaced=True, struct=Unstructured)
    assert all_path(kind) == path
