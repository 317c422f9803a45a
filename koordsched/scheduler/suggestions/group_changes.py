"""Changes of what a pod shares with others: members of its gang, limits of its quota."""

from __future__ import annotations

from typing import Any

import msgspec

from koordsched.api.koordinator.pods import amount_text

Json = dict[str, Any]

MOST_HOLDERS = 3
MOST_MEMBERS = 64


class MembersAdded(msgspec.Struct, frozen=True):
    """More pods like this one in its gang."""

    gang: str
    levels: int
    kind: str = "addMembers"

    def text(self, level: int) -> str:
        return f"create {level} more member{'s' if level > 1 else ''} of gang {self.gang}"

    def fields(self, level: int) -> Json:
        return {"gang": self.gang, "members": level}


class MinimumLowered(msgspec.Struct, frozen=True):
    """A gang that needs fewer members. pod_group: the name of its PodGroup; else the members' own label or annotation says the number."""

    gang: str
    namespace: str
    pod_group: str
    present: int
    kind: str = "gangMinimum"

    @property
    def levels(self) -> int:
        return self.present - 1

    def text(self, level: int) -> str:
        return f"lower the minimum of gang {self.gang} from {self.present} to {self.present - level} members"

    def fields(self, level: int) -> Json:
        return {"gang": self.gang, "from": self.present, "to": self.present - level}


class QuotaRaised(msgspec.Struct, frozen=True):
    """More of a resource in a quota's max. step: what one level adds. holders: pods that use most of it."""

    namespace: str
    quota: str
    resource: str
    present: int
    step: int
    levels: int
    written: Any
    holders: tuple[tuple[str, int], ...]
    with_min: bool = False
    kind: str = "quota"

    def text(self, level: int) -> str:
        holders = ", ".join(f"{pod} {self.shown(amount)}" for pod, amount in self.holders)
        what = "max and min" if self.with_min else "max"
        added = self.shown(level * self.step)
        text = f"raise {what} of quota {self.quota} by {added} of {self.resource}, max to {self.shown(self.present + level * self.step)}"
        return f"{text} (held by {holders})" if holders else text

    def fields(self, level: int) -> Json:
        return {
            "quota": self.quota,
            "resource": self.resource,
            "from": self.shown(self.present),
            "to": self.shown(self.present + level * self.step),
            "min": self.with_min,
            "holders": [{"pod": pod, "holds": self.shown(amount)} for pod, amount in self.holders],
        }

    def shown(self, amount: int) -> str:
        """Write an amount of the resource as the quota's object has it."""
        return amount_text(self.resource, amount, self.written)
