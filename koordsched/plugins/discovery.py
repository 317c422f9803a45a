"""Out-of-tree plugins: what installed distributions offer in the entry-point group `koordsched.plugins`.

An entry's name is the plugin's name and its object is the plugin's class, which is also its factory: `Class(args, handle)`. The class plays
the extension points whose roles it inherits, and has an attribute `Args` if its arguments are typed. An entry that cannot be used becomes
one line in the catalogue, not an exception: whether it matters is for the configuration to say. This module knows no plugin, in-tree
ones only by the names of `config.REFERENCE`. Called through `koordsched.plugins`; docs/writing-plugins.md is the page for authors.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.kinds import bring
from koordsched.config.catalogue import REFERENCE, Catalogue
from koordsched.config.types import PluginArgs
from koordsched.framework.interface import Plugin, extension_points_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "koordsched.plugins"


class Installed(msgspec.Struct, frozen=True):
    """The usable out-of-tree plugins by name, and the reference's catalogue with them and with what is wrong with the others."""

    classes: Mapping[str, type[Plugin]]
    catalogue: Catalogue


@cache
def installed() -> Installed:
    """Return what the distributions of this Python offer. Looks once a process: with 39 distributions that takes 50 ms."""
    from importlib.metadata import entry_points  # noqa: PLC0415  # most of those 50 ms, which only a search is to cost

    return read_entries(entry_points(group=GROUP))


def offering_packages() -> list[str]:
    """Return the top-level packages of the entries, sorted, without importing any."""
    from importlib.metadata import entry_points  # noqa: PLC0415  # see above

    return sorted({entry.module.partition(".")[0] for entry in entry_points(group=GROUP)})


def read_entries(entries: Iterable[EntryPoint]) -> Installed:
    """Import what the entries name and sort out what cannot be used."""
    by_name: dict[str, list[EntryPoint]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.name, _distribution(entry), entry.value)):
        by_name.setdefault(entry.name, []).append(entry)
    classes, catalogue = {}, REFERENCE
    for name, rivals in by_name.items():
        try:
            cls = _read(rivals)
        except _UnusableError as unusable:
            catalogue = catalogue.with_unusable(name, f"entry point {_described(rivals[0])}: {unusable}")
        else:
            classes[name] = cls
            catalogue = catalogue.with_plugin(name, extension_points_of(cls), getattr(cls, "Args", None))
    return Installed(classes, catalogue)


class _UnusableError(Exception):
    """What is wrong with an entry, to be said after the entry and its distribution."""


def _read(rivals: list[EntryPoint]) -> type[Plugin]:
    """Return the class of the entries of one name. _UnusableError when there is not exactly one that the framework can run."""
    entry = rivals[0]
    if entry.name in REFERENCE.points:
        raise _UnusableError("is the name of an in-tree plugin; a plugin needs a name of its own")
    if len(rivals) > 1:
        raise _UnusableError(f"the name is taken twice, the other one is {' and '.join(map(_described, rivals[1:]))}; uninstall one")
    try:
        found = entry.load()
    except Exception as error:  # a stranger's module may raise anything while it is imported
        raise _UnusableError(f"cannot be loaded: {type(error).__name__}: {' '.join(str(error).split())}") from error
    return _checked(found, entry.name)


def _checked(found: Any, name: str) -> type[Plugin]:
    """Return the object of an entry as a plugin's class."""
    if not (isinstance(found, type) and issubclass(found, Plugin)):
        seen = f"class {found.__name__}" if isinstance(found, type) else f"an object of type {type(found).__name__}"
        raise _UnusableError(f"expected a class that inherits from koordsched.framework.interface.Plugin, seen {seen}")
    if not extension_points_of(found):
        raise _UnusableError(f"class {found.__name__} inherits no role of koordsched.framework.interface, such as FilterPlugin")
    if inspect.isabstract(found):
        raise _UnusableError(f"class {found.__name__} does not define {', '.join(sorted(found.__abstractmethods__))}")
    own_name = getattr(found, "name", None)
    if own_name != name:
        raise _UnusableError(f"class {found.__name__} has the name {own_name!r}, expected {name!r}")
    args = getattr(found, "Args", None)
    if args is not None and not (isinstance(args, type) and issubclass(args, PluginArgs)):
        raise _UnusableError(f"{found.__name__}.Args is no subclass of koordsched.config.PluginArgs")
    for kind in found.kinds:
        try:
            bring(kind)
        except ValueError as other:
            raise _UnusableError(f"{found.__name__}.kinds: {other}") from None
    try:
        inspect.signature(found).bind("args", "handle")
    except TypeError as error:
        raise _UnusableError(f"class {found.__name__} cannot be made as {found.__name__}(args, handle): {error}") from None
    return found


def _described(entry: EntryPoint) -> str:
    return f"{entry.name} = {entry.value} of {_distribution(entry)}"


def _distribution(entry: EntryPoint) -> str:
    return f"distribution {entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown distribution"
