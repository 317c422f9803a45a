"""What the scheduler and the API server know of quotas and Reservations that are wrong: afterwards the control plane is gone."""

from __future__ import annotations

import json
from collections.abc import Iterable

from support.controlplane.rest import Rest
from support.live import Running

from soak.objects import QUOTAS, RESERVATIONS

QUOTA_ROUTE, RESERVATION_ROUTE = "/apis/v1/plugins/ElasticQuota/quotas", "/apis/v1/plugins/Reservation/nodeReservations"


def known_of(running: Running, rest: Rest, wrong: Iterable[str]) -> list[str]:
    """Return what is known of the objects of which these sentences speak; each begins with a name."""
    names = {sentence.partition(" ")[0] for sentence in wrong}
    found: list[str] = []
    for quota in rest.get(QUOTAS)["items"]:
        if (name := quota["metadata"]["name"]) in names:
            found += [json.dumps(quota), _answer(running, f"{QUOTA_ROUTE}/{name}?includePods=true")]
    for reservation in rest.get(RESERVATIONS)["items"]:
        if reservation["metadata"]["name"] in names:
            node = reservation.get("status", {}).get("nodeName", "")
            found += [json.dumps(reservation), _answer(running, f"{RESERVATION_ROUTE}/{node}")]
    return found


def _answer(running: Running, path: str) -> str:
    status, text = running.debug(path)
    return f"{path}: {status} {text}"
