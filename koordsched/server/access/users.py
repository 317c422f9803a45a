"""Who somebody is: names as Kubernetes' authenticators give them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

ALL_AUTHENTICATED = "system:authenticated"
ALL_UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"


class User(msgspec.Struct, frozen=True):
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}


ANONYMOUS = User("system:anonymous", (ALL_UNAUTHENTICATED,))


def authenticated(user: User) -> User:
    """Add the group of everybody who said who he is, unless he is nobody or has it."""
    if user.name == ANONYMOUS.name or {ALL_AUTHENTICATED, ALL_UNAUTHENTICATED} & set(user.groups):
        return user
    return msgspec.structs.replace(user, groups=(*user.groups, ALL_AUTHENTICATED))
