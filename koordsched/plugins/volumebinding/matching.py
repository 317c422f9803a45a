"""Which volumes suit a claim, nodes aside, in the order in which it should get them.

Reference: FindMatchingVolume in k8s.io/component-helpers/storage/volume at v0.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.volume_matching import can_hold, suits
from koordsched.api.volumes import is_for

if TYPE_CHECKING:
    from koordsched.plugins.volumebinding.claims import Delayed
    from koordsched.plugins.volumebinding.supply import Offer, Supply


def candidates(supply: Supply, delayed: Delayed) -> list[Offer]:
    """Return the volumes that the claim can have, the best first.

    One that is meant for the claim is the only one: where the node cannot reach it, the claim gets no other that is there.
    """
    for offer in supply.meant_for(delayed.key, delayed.storage_class):
        promised = supply.assumed.claim_of(offer.name) == delayed.key
        if (promised or is_for(offer.volume, delayed.claim)) and can_hold(offer.volume, offer.size, delayed.request):
            return [offer]
    return [offer for offer in supply.free(delayed.storage_class) if suits(offer.volume, offer.size, delayed.request)]
