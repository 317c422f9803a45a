"""What is said of reservations alone where a pod that needs one is refused (frameworkext.md §4.1, §10 line 35)."""

from __future__ import annotations

import pytest

from koordsched.plugins.reservation.diagnosis import without_nodes


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "0/5 nodes are available: 2 Reservation(s) Insufficient memory, 3 Insufficient cpu. 2 Reservation(s) matched owner total.",
            "0/2 reservations are available: 2 Reservation(s) Insufficient memory.",
        ),
        (
            "0/3 nodes are available: 1 Reservation(s) is unschedulable, 1 Insufficient cpu. "
            "1 Reservation(s) for node reason that node(s) didn't match pod affinity rules, 2 Reservation(s) didn't match affinity rules, "
            "1 Reservation(s) exactly matches the requested reservation name, 5 Reservation(s) matched owner total",
            "0/5 reservations are available: 1 Reservation(s) exactly matches the requested reservation name, "
            "1 Reservation(s) is unschedulable, 2 Reservation(s) didn't match affinity rules, "
            "1 Reservation(s) for node reason that node(s) didn't match pod affinity rules.",
        ),
        ("0/1 nodes are available: 1 node(s) no reservation. 0 Reservation(s) matched owner total.", "0/0 reservations are available: ."),
        ("0/1 nodes are available: 1 Reservation(s) Insufficient cpu.", None),
        ("running Reserve plugin: 2 Reservation(s) matched owner total", None),
        ("", None),
    ],
)
def test_a_message_keeps_what_is_about_reservations(message: str, said: str | None) -> None:
    assert without_nodes(message) == said
