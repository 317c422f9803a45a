"""Loggers that cost nothing until somebody logs.

structlog takes longer to import than `simulate` takes for 500 pods, and most runs of `simulate`, `test` and `validate` never log. So
modules get a logger from here; the first message imports structlog. `quiet` is for commands whose output is their own.
"""

from __future__ import annotations

import sys
from typing import Any


class Logger:
    """What structlog's bound logger offers, made when it is first used. Key words become fields: pod="ns/name", node, err."""

    __slots__ = ("_bound", "_fields", "_name")

    def __init__(self, name: str, **fields: object) -> None:
        self._name = name
        self._fields = fields
        self._bound: Any = None

    def bind(self, **fields: object) -> Logger:
        """Return a logger that adds these fields to each message."""
        return Logger(self._name, **self._fields, **fields)

    def debug(self, event: str, **fields: object) -> None:
        if not _quiet:
            self._logger().debug(event, **fields)

    def info(self, event: str, **fields: object) -> None:
        if not _quiet:
            self._logger().info(event, **fields)

    def warning(self, event: str, **fields: object) -> None:
        if not _quiet:
            self._logger().warning(event, **fields)

    def error(self, event: str, **fields: object) -> None:
        self._logger().error(event, **fields)

    def exception(self, event: str, **fields: object) -> None:
        """Log an error with the exception that is being handled."""
        self._logger().exception(event, **fields)

    def _logger(self) -> Any:
        import structlog  # noqa: PLC0415  # see the module's docstring

        if _quiet:
            return structlog.wrap_logger(structlog.PrintLogger(sys.stderr)).bind(**self._fields)
        if self._bound is None:
            self._bound = structlog.get_logger(self._name).bind(**self._fields)
        return self._bound


_quiet = False


def get_logger(name: str) -> Logger:
    """Return the logger of a module: `log = get_logger(__name__)`."""
    return Logger(name)


def be_quiet() -> None:
    """Log errors only, to stderr, from now on."""
    global _quiet  # noqa: PLW0603  # one process, one log
    _quiet = True
