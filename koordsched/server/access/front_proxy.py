"""Front proxies: who shows a certificate of theirs may say in headers for whom it asks."""

from __future__ import annotations

from urllib.parse import unquote

import msgspec

from koordsched.server.access.users import User
from koordsched.server.request import Headers, readable


class ProxyRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which headers name the user, and the CNs that a proxy may have (none listed: any)."""

    username_headers: tuple[str, ...] = ("x-remote-user",)
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)
    uid_headers: tuple[str, ...] = ()
    allowed_names: tuple[str, ...] = ()


def user_behind(headers: Headers, rules: ProxyRules) -> User | None:
    """Return the user whom a proxy's headers name; None when they name none."""
    name = _first(headers, rules.username_headers)
    if not name:
        return None
    groups = [readable(group) for header in rules.group_headers for group in headers.getall(header, []) if group]
    return User(name, tuple(groups), _first(headers, rules.uid_headers), _extra(headers, rules.extra_prefixes))


def _first(headers: Headers, names: tuple[str, ...]) -> str:
    return next((readable(value) for name in names if (value := headers.get(name, ""))), "")


def _extra(headers: Headers, prefixes: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for prefix in prefixes:
        for name, value in headers.items():
            if name.lower().startswith(prefix.lower()):
                key = unquote(readable(name).lower()[len(prefix) :])
                found[key] = (*found.get(key, ()), readable(value))
    return found
