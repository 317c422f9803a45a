"""What a test knows to be there: `known(queue.get("default/p")).pod_info` fails at once, and says where, when there is no such pod."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def known(found: T | None) -> T:
    assert found is not None
    return found
