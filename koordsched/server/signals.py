"""Signals: the first SIGTERM or SIGINT asks for a graceful stop, the second ends the process at once, SIGUSR2 asks for a dump."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = get_logger(__name__)

STOPPING = (signal.SIGTERM, signal.SIGINT)


class Reactions(msgspec.Struct, frozen=True):
    """What to call, on the event loop: for the first signal to stop, for each further one, and for SIGUSR2."""

    stop: Callable[[], object]
    give_up: Callable[[], object]
    dump: Callable[[], object]


@contextmanager
def handling_signals(reactions: Reactions) -> Iterator[None]:
    """React to signals for the length of a block, on the running loop."""
    loop = asyncio.get_running_loop()
    asked = False

    def stop_asked(received: signal.Signals) -> None:
        nonlocal asked
        if asked:
            log.error("second signal to stop: exiting at once", signal=received.name)
            reactions.give_up()
            return
        asked = True
        log.info("stopping", signal=received.name)
        reactions.stop()

    for each in STOPPING:
        loop.add_signal_handler(each, stop_asked, each)
    loop.add_signal_handler(signal.SIGUSR2, reactions.dump)
    try:
        yield
    finally:
        for each in (*STOPPING, signal.SIGUSR2):
            loop.remove_signal_handler(each)
