"""What plugins keep together about a cache."""

from __future__ import annotations

import gc
import weakref

from koordsched.cache.cache import Cache


class Counting:
    def __init__(self, cache: Cache) -> None:
        self.cache = cache


def counting(cache: Cache) -> Counting:
    return cache.shared.one(Counting, lambda: Counting(cache))


def test_whoever_asks_gets_the_same_object_of_one_cache() -> None:
    cache, other = Cache(), Cache()
    assert counting(cache) is counting(cache)
    assert counting(cache) is not counting(other)
    assert counting(other).cache is other


def test_it_goes_with_the_cache_although_it_holds_it() -> None:
    cache = Cache()
    gone = weakref.ref(counting(cache))
    del cache
    gc.collect()
    assert gone() is None
