"""What plugins see of extenders: preemption asks them before it decides (framework.md §7.5). `scheduler/extenders` are they themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from koordsched.api.podinfo import PodInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

EXTENDER = "Extender"
"""The name under which extenders refuse pods: no plugin, but every event may help a pod that it refused."""


class Victims(msgspec.Struct, frozen=True):
    """The pods of one node that would have to go, the most important first, and how many of them disruption budgets protect."""

    pods: tuple[PodInfo, ...]
    pdb_violations: int = 0


class ExtenderError(Exception):
    """An extender failed or answered nonsense; the text names its URL and verb."""


class ExtenderSettingsError(Exception):
    """The operator's settings of an extender cannot work. The text is one line that names what to look at."""


class PreemptionExtenders(Protocol):
    """The extenders, as far as preemption knows them."""

    def wants_preemption(self, pod: PodInfo) -> bool:
        """Answer whether any extender has a say in the preemption for this pod; if not, there is nothing to await."""

    async def preempt(self, pod: PodInfo, victims: Mapping[str, Victims]) -> dict[str, Victims]:
        """Return the candidates (victims by node name) that the extenders leave, with the victims they want; none: no candidate is left.

        ExtenderError when one that is not ignorable failed. Victims may have left their nodes meanwhile, but not the returned ones.
        """
