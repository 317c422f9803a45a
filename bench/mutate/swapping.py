"""Exchanging the code of functions in the running process, wherever they are held: modules, classes, properties, closures."""

from __future__ import annotations

import gc
from types import CodeType, FunctionType


class NotExchangeable(Exception):
    """The changed function closes over other names, so its code does not fit the living function."""


def exchanges(filename: str, source: str, mutated: str) -> list[tuple[CodeType, CodeType]]:
    """Return the pairs of code objects of functions that differ. SyntaxError, NotExchangeable."""
    before = compile(source, filename, "exec", dont_inherit=True)
    after = compile(mutated, filename, "exec", dont_inherit=True)
    pairs: list[tuple[CodeType, CodeType]] = []
    _pair(before, after, pairs)
    return pairs


def _pair(before: CodeType, after: CodeType, pairs: list[tuple[CodeType, CodeType]]) -> None:
    old = [const for const in before.co_consts if isinstance(const, CodeType)]
    new = [const for const in after.co_consts if isinstance(const, CodeType)]
    for one, other in zip(old, new, strict=False):  # a lambda may be gone; then the function around it differs as well
        if one == other or one.co_qualname != other.co_qualname:
            continue
        if one.co_freevars != other.co_freevars:
            raise NotExchangeable(one.co_qualname)
        if one.co_flags & 0x2:  # CO_NEWLOCALS: a function, not the body of a class
            pairs.append((one, other))
        _pair(one, other, pairs)


def exchange(filename: str, pairs: list[tuple[CodeType, CodeType]]) -> int:
    """Give every living function with an old code its new one; return how many there were."""
    by_place = {(old.co_qualname, old.co_firstlineno): (old, new) for old, new in pairs}
    count = 0
    gc.unfreeze()  # else what was frozen is not among the objects
    for living in gc.get_objects():
        if type(living) is not FunctionType or living.__code__.co_filename != filename:
            continue
        old, new = by_place.get((living.__code__.co_qualname, living.__code__.co_firstlineno), (None, None))
        if new is not None and living.__code__ == old:
            living.__code__ = new
            count += 1
    gc.freeze()
    return count
