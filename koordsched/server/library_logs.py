"""What libraries log with the standard library's `logging` (aiohttp, asyncio, kubernetes-asyncio) goes into our log, in our format."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def carrying_library_logs() -> Iterator[None]:
    """Carry warnings and errors of libraries for the length of a block."""
    handler = _Carrier(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


class _Carrier(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log = get_logger(record.name)
        if record.exc_info:
            log.exception(record.getMessage(), exc_info=record.exc_info)
        elif record.levelno >= logging.ERROR:
            log.error(record.getMessage())
        else:
            log.warning(record.getMessage())
