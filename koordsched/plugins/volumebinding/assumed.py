"""Which volumes are promised to which claims, and which nodes claims are to be provisioned for, before the cluster knows.

Several pods may use one claim, so each promise is kept until all who made it have given it back: when the cluster shows it, or when the
pod did not get its node. Nothing in here survives a crash, and need not: nothing was bound on the strength of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable


class Promise(msgspec.Struct, eq=False):
    """What was promised, and the uids of the pods that rely on it."""

    what: str
    holders: set[str] = msgspec.field(default_factory=set)


class Assumed:
    """The promises. A volume is promised to one claim, a claim has one volume or one node."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        """changed: told the name of each volume that was promised or became free again."""
        self._changed = changed
        self._volumes: dict[str, Promise] = {}  # by volume: the claim's key
        self._claims: dict[str, str] = {}  # by claim: its volume
        self._nodes: dict[str, Promise] = {}  # by claim: the node

    def promise_volume(self, volume: str, claim: str, holder: str) -> None:
        """Promise the volume to the claim. ValueError when another claim has it, or the claim another volume."""
        promise = self._volumes.get(volume)
        if (promise is not None and promise.what != claim) or self._claims.get(claim, volume) != volume:
            raise ValueError(f"volume {volume} cannot be promised to claim {claim}: one of them is promised already")
        if promise is None:
            promise = self._volumes[volume] = Promise(claim)
            self._claims[claim] = volume
            self._changed(volume)
        promise.holders.add(holder)

    def promise_node(self, claim: str, node: str, holder: str) -> None:
        """Let the claim be provisioned for the node. ValueError when it is to be for another."""
        promise = self._nodes.setdefault(claim, Promise(node))
        if promise.what != node:
            raise ValueError(f"claim {claim} cannot be provisioned for {node}: it is to be for {promise.what}")
        promise.holders.add(holder)

    def release_volume(self, volume: str, holder: str) -> None:
        promise = self._volumes.get(volume)
        if promise is None:
            return
        promise.holders.discard(holder)
        if not promise.holders:
            del self._volumes[volume]
            del self._claims[promise.what]
            self._changed(volume)

    def release_node(self, claim: str, holder: str) -> None:
        promise = self._nodes.get(claim)
        if promise is None:
            return
        promise.holders.discard(holder)
        if not promise.holders:
            del self._nodes[claim]

    def claim_of(self, volume: str) -> str:
        """Return the key of the claim that the volume is promised to, or ""."""
        promise = self._volumes.get(volume)
        return "" if promise is None else promise.what

    def volume_of(self, claim: str) -> str:
        return self._claims.get(claim, "")

    def node_of(self, claim: str) -> str:
        """Return the node that the claim is to be provisioned for, or ""."""
        promise = self._nodes.get(claim)
        return "" if promise is None else promise.what
