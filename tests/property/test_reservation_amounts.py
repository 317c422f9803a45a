"""What owners have taken of a reservation, and what they leave, is what a plain sum says, in whatever order they come and go.

Reservations of one template share what is added up: what is taken of one must not show at another.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import pod
from support.reservations import available

from koordsched.api.podinfo import PodInfo
from koordsched.api.resources import DEFAULT_MILLI_CPU
from koordsched.plugins.reservation.info import ReservationInfo

Amounts = dict[str, int]


class Template(NamedTuple):
    """What the template requests, and what the status has of it, in whole units."""

    requested: Amounts
    has: Amounts


some = st.dictionaries(st.sampled_from(["cpu", "example.com/a"]), st.integers(1, 4), min_size=1)
templates = st.one_of(some.map(lambda amounts: Template(amounts, amounts)), st.builds(Template, some, some))
owners = st.dictionaries(st.sampled_from(["cpu", "example.com/a", "example.com/b"]), st.integers(1, 3), max_size=3)
steps = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), owners), max_size=20)


def reservation(name: str, template: Template) -> ReservationInfo:
    made = available(name, "n", texts(template.requested))
    made = replace(made, status=replace(made.status, allocatable=texts(template.has)))
    return ReservationInfo(made, PodInfo.of_reservation(made))


def owner(uid: str, amounts: Amounts) -> PodInfo:
    builder = pod(uid).uid(uid)
    for resource, amount in texts(amounts).items():
        builder = builder.request(resource, amount)
    return builder.info()


def texts(amounts: Amounts) -> dict[str, str]:
    return {resource: str(amount) for resource, amount in amounts.items()}


def milli(amounts: Amounts) -> Amounts:
    return {resource: 1000 * amount if resource == "cpu" else amount for resource, amount in amounts.items()}


def check(info: ReservationInfo, template: Template) -> None:
    whole = milli(template.has)
    requested = milli(template.requested | template.has)
    taken: Counter[str] = Counter()
    for each in info.owners.values():
        taken.update({resource: amount for resource, amount in each.resources.requests.items() if resource in whole})
    assert info.allocatable == whole
    assert info.allocated == dict(taken)
    assert info.overdrawn is any(amount > whole[resource] for resource, amount in taken.items())
    left = {resource: max(amount - taken[resource], 0) for resource, amount in requested.items()}
    counted = info.left().resources
    assert counted.requests == {resource: amount for resource, amount in left.items() if amount}
    if not info.owners:
        assert counted is info.pod.resources
    else:
        asked = info.pod.resources.nonzero_cpu
        assert counted.nonzero_cpu == counted.scoring_cpu == max(asked - (taken["cpu"] or DEFAULT_MILLI_CPU), 0)


@given(templates, templates, steps)
def test_what_is_taken_and_left_is_what_a_plain_sum_says(
    first: Template, second: Template, history: list[tuple[int, int, Amounts]]
) -> None:
    """Two reservations of the first template and one of the second: each step lets an owner come, or go if it is there."""
    made = [(reservation("a", first), first), (reservation("b", first), first), (reservation("c", second), second)]
    for which, serial, amounts in history:
        info = made[which][0]
        uid = f"p{serial}"
        if uid in info.owners:
            info.count(info.drop_owner(uid), -1)
        else:
            info.put_owner(owner(uid, amounts))
            info.count(info.owners[uid], 1)
        for each, template in made:
            check(each, template)
    for each, template in made:
        each.read(each.reservation, each.pod)
        check(each, template)
