"""What do transformers cost pods that concern none of them?

Each pod event is looked at once, on its way from the decoder to the store. Limit: 1 us a pod, and no call of a transformer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from support.builders import pod

from koordsched.api.core import Pod
from koordsched.api.kinds import POD
from koordsched.cluster.apiserver.decoding import KindDecoder
from koordsched.cluster.object_store import ObjectStore
from koordsched.config.features import DEFAULT_GATES
from koordsched.framework.transformers import Transformers
from koordsched.scheduler.transformers import standard_transformers

PODS = 50_000
LINES_A_BATCH = 50


def batches() -> list[bytes]:
    """Return watch lines of plain pods, as a start with so many pods reads them."""
    lines = []
    for index in range(PODS):
        made = pod(f"web-{index}").cpu("1").memory("1Gi").label("app", "web").annotation("a", "b").on(f"node-{index % 5000}").build()
        made = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, resource_version=str(index + 1)))
        lines.append(msgspec.json.encode({"type": "ADDED", "object": made}))
    return [b"\n".join(lines[start : start + LINES_A_BATCH]) + b"\n" for start in range(0, PODS, LINES_A_BATCH)]


@pytest.mark.parametrize("transforming", [False, True])
def bench_decode_and_store_50000_plain_pods(benchmark: Any, *, transforming: bool) -> None:
    """The time is for all 50,000; the difference of the two rows is what transformers cost."""
    lines, decoder, called = batches(), KindDecoder(POD), 0

    def counted(transform: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(obj: Any) -> Any:
            nonlocal called
            called += 1
            return transform(obj)

        return call

    listed = standard_transformers(DEFAULT_GATES, lambda _obj, _problem: None)
    watched = Transformers([msgspec.structs.replace(each, transform=counted(each.transform)) for each in listed])

    def take_in() -> None:
        store: ObjectStore[Pod] = ObjectStore("pods")
        store.transform = watched.of(POD) if transforming else None
        for batch in lines:
            for event in decoder.batch(batch).events:
                store.apply(event)
        assert len(store.store) == PODS

    benchmark.pedantic(take_in, rounds=5, warmup_rounds=1)
    assert called == 0
