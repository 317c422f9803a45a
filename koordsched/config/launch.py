"""What a scheduler is started with, for whoever starts one: in this process, or as a process of its own from files and flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from koordsched.config.types import SchedulerConfiguration


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration and extra flags. `config` is complete; `document` is what it was read from: defaults may differ."""

    config: SchedulerConfiguration
    document: Mapping[str, Any]
    args: tuple[str, ...] = ()
