"""What `simulate` knows of Reservation: the meaning of its texts, and a table of what is reserved and what becomes of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from koordsched.api.kinds import RESERVATION
from koordsched.api.koordinator.quota_definitions import amount_text
from koordsched.api.koordinator.reservation_links import RESERVATION_ALLOCATED, allocated_reservation
from koordsched.api.koordinator.reservation_status import is_expired
from koordsched.api.koordinator.reservations import Reservation
from koordsched.api.koordinator.reserve_pods import AVAILABLE, FAILED, PENDING, SUCCEEDED
from koordsched.api.quantity import QuantityError, nano
from koordsched.api.resources import exact_requests
from koordsched.framework.tooling import PluginReport, Report, Section, Tooling, percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from koordsched.api.core import Pod, ResourceList
    from koordsched.api.meta import Object
    from koordsched.cache.cache import Cache

EXPIRED = "Expired"
STATES = (PENDING, AVAILABLE, SUCCEEDED, EXPIRED, FAILED)
SHOWN_OWNERS = 2
ABSENT = "-"

Nanos = dict[str, int]


class ReservationUse(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A Reservation at the end. state: its phase, or Expired. used: by its owners. wasted: reserved now, and not used."""

    name: str
    state: str
    node: str
    owners: list[str]
    reserved: dict[str, str]
    used: dict[str, str]
    wasted: dict[str, str]


class ReservationsSummary(msgspec.Struct, frozen=True):
    """All Reservations, those that waste most first, how many are in which state, and what those that are Available have together."""

    states: dict[str, int]
    reserved: dict[str, str]
    used: dict[str, str]
    wasted: dict[str, str]
    reservations: list[ReservationUse]


def reservation_report(pods: Iterable[Pod], objects: Iterable[Object], _cache: Cache) -> PluginReport | None:
    """Return the report on the Reservations of a cluster. Who owns them is read from pods: their status follows a second later."""
    reservations = [each for each in objects if isinstance(each, Reservation)]
    owners: dict[str, list[Pod]] = {}
    for pod in pods:
        uid = allocated_reservation(pod.metadata.annotations) if RESERVATION_ALLOCATED in pod.metadata.annotations else ""
        owners.setdefault(uid, []).append(pod)
    states: Counter[str] = Counter()
    total: dict[str, Nanos] = {"reserved": {}, "used": {}, "wasted": {}}
    uses: list[tuple[Nanos, ReservationUse]] = []
    for reservation in reservations:
        own = owners.get(reservation.metadata.uid, [])
        state = state_of(reservation, own)
        states[state] += 1
        reserved = _nanos(reservation.status.allocatable)
        used: Nanos = {}
        for pod in own:
            _add(used, {name: amount for name, amount in exact_requests(pod).items() if name in reserved})
        wasted = {name: amount - min(used.get(name, 0), amount) for name, amount in reserved.items()} if state == AVAILABLE else {}
        if state == AVAILABLE:
            for known, amounts in zip(total.values(), (reserved, used, wasted), strict=True):
                _add(known, amounts)
        use = ReservationUse(
            name=reservation.metadata.name,
            state=state,
            node=reservation.status.node_name,
            owners=[f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in own],
            reserved=_texts(reserved),
            used=_texts(used),
            wasted=_texts(wasted),
        )
        uses.append((wasted, use))
    uses.sort(key=lambda each: ([-each[0].get(name, 0) for name in ("cpu", "memory")], STATES.index(each[1].state), each[1].name))
    summary = ReservationsSummary(
        states={state: states[state] for state in STATES if states[state]},
        reserved=_texts(total["reserved"]),
        used=_texts(total["used"]),
        wasted=_texts(total["wasted"]),
        reservations=[use for _, use in uses],
    )
    return PluginReport(summary, lambda limit: reservation_sections(summary, total, limit))


def state_of(reservation: Reservation, owners: Sequence[Pod]) -> str:
    """Return the phase, Expired where that is why it failed; with an owner one that is allocated once has succeeded."""
    if is_expired(reservation):
        return EXPIRED
    phase = reservation.status.phase or PENDING
    return SUCCEEDED if phase == AVAILABLE and owners and reservation.spec.allocate_once else phase


def _nanos(amounts: ResourceList) -> Nanos:
    """Return amounts in nano-units; {} where one cannot be read."""
    try:
        return {name: nano(quantity) for name, quantity in amounts.items()}
    except QuantityError:
        return {}


def _add(known: Nanos, amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        known[name] = known.get(name, 0) + amount


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: amount_text(name, amounts[name]) for name in sorted(amounts)}


def reservation_sections(summary: ReservationsSummary, total: Mapping[str, Nanos], limit: int) -> Sequence[Section]:
    """Return the table of at most so many Reservations: those first that waste most."""
    if not limit:
        return []
    rows = [row for use in summary.reservations[:limit] for row in _rows(use)]
    notes = [", ".join(f"{count} {state}" for state, count in summary.states.items())]
    for name, reserved in sorted(total["reserved"].items()):
        used, wasted = total["used"].get(name, 0), total["wasted"][name]
        parts = f"{amount_text(name, reserved)} reserved, {amount_text(name, used)} used, {amount_text(name, wasted)} wasted"
        notes.append(f"{name} of those that are Available: {parts} ({percent(wasted, reserved)})")
    if len(summary.reservations) > limit:
        notes.append(f"{len(summary.reservations) - limit} more Reservations; --show-reservations N lists more.")
    columns = ("reservation", "state", "node", "owners", "resource", "reserved", "used", "wasted")
    return [Section(title="Reservations", columns=columns, align="<<<<<>>>", rows=rows, notes=notes)]


def _rows(use: ReservationUse) -> Iterator[tuple[str, ...]]:
    """Yield a row for each resource that is reserved, or one where nothing is."""
    owners = ", ".join(use.owners[:SHOWN_OWNERS]) + (
        f" and {len(use.owners) - SHOWN_OWNERS} more" if len(use.owners) > SHOWN_OWNERS else ""
    )
    first = (use.name, use.state, use.node or ABSENT, owners or ABSENT)
    if not use.reserved:
        yield (*first, ABSENT, ABSENT, ABSENT, ABSENT)
    for name, reserved in use.reserved.items():
        yield (*first, name, reserved, use.used.get(name, "0"), use.wasted.get(name, ABSENT))
        first = ("", "", "", "")


TOOLING = Tooling(
    explanations=(
        (
            r"node\(s\) no reservations match reservation affinity",
            "the pod must use a Reservation, and none that is Available is for it; the table of Reservations says what there is",
        ),
        (r"Reservation\(s\) Insufficient (\S+?),?(?: requested.*)?", "its Reservations have less {0} left than it asks for"),
        (r"Reservation\(s\) Too many pods", "its Reservations take no more pods"),
    ),
    reports=(Report("reservations", "--show-reservations", "Reservations in their table (default 10)", RESERVATION, reservation_report),),
    pod_annotations=(RESERVATION_ALLOCATED,),
)
