"""ImageLocality: Score by the sizes of the pod's images on the node, each scaled by the share of nodes that have it.

A row's score depends on how many nodes there are and how many have an image, so what every image is worth is the plugin's version: rows are
asked again when that changes, and only for pods that name an image some node has.
Reference: plugins/imagelocality/image_locality.go of Kubernetes v1.35.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from koordsched._core.bitset import BitWeights
from koordsched._core.change import NodeChange
from koordsched.api.names import normalized_image_name
from koordsched.framework.interface import ScoreNodesPlugin

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Scores

MIB = 1024 * 1024
LEAST = 23 * MIB  # less than this of images on a node is worth nothing
MOST = 1000 * MIB  # per container; more than this is worth no more

KEPT_LISTS = 1024
LONG_LIST = 64  # images; longer lists are weighed each time

Worth = tuple[tuple[int, int], ...]  # bit column and value of each image that some node has, one entry a container


class ImageLocality(ScoreNodesPlugin):
    name = "ImageLocality"
    reads = NodeChange.IMAGES
    versions_of_nodes = True

    def __init__(self, handle: Handle) -> None:
        self._columns = handle.columns
        self._weights = lru_cache(maxsize=KEPT_LISTS)(self._weigh)  # by list of images, true for the nodes of `_weighed_at`
        self._weighed_at = (0, 0)

    def sign(self, pod: PodInfo) -> Hashable:
        spec = pod.pod.spec
        return spec.containers[0].image if len(spec.containers) == 1 and not spec.init_containers else _images(pod)

    def version(self, pod: PodInfo) -> Hashable:
        return self._current(pod)[0] if self._columns.images else ()

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores | None:
        worth, weights = self._current(pod)
        if not worth:
            return None
        return weights.score(nodes.table, nodes.rows)

    def _current(self, pod: PodInfo) -> tuple[Worth, BitWeights]:
        now = (self._columns.images_version, self._columns.table.live_count)  # all that the worth of an image depends on
        if now != self._weighed_at:
            self._weights.cache_clear()
            self._weighed_at = now
        images = _images(pod)
        return self._weigh(images) if len(images) > LONG_LIST else self._weights(images)

    def _weigh(self, images: tuple[str, ...]) -> tuple[Worth, BitWeights]:
        known, table = self._columns.images, self._columns.table
        found = [known.get(normalized_image_name(image)) for image in images]
        # In this order and in double precision, as the reference computes it: the last digit depends on it.
        worth = tuple((image.bit, int(image.size * (table.count_bits(image.bit) / table.live_count))) for image in found if image)
        return worth, BitWeights([bit for bit, _ in worth], [value for _, value in worth], LEAST, MOST * max(1, len(images)))


def _images(pod: PodInfo) -> tuple[str, ...]:
    spec = pod.pod.spec
    return tuple([container.image for container in spec.init_containers + spec.containers])
