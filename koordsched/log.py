"""Loggers that cost nothing until the first message.

structlog takes longer to import than `simulate` takes for 500 pods, and most runs of `simulate`, `test` and `validate` never log. So
modules get a logger from here; the first message imports structlog. `be_quiet` is for commands whose output is their own; `write_logs` is
for serving: klog's text lines, or component-base's JSON with `--logging-format=json`. What libraries log with the standard library's
`logging` (aiohttp, asyncio, kubernetes-asyncio) goes into the same log within `carrying_library_logs`.
"""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Callable, MutableMapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator


DEBUG_VERBOSITY = 4
"""From this -v on, debug messages are written: klog's "debug level verbosity"."""
LETTERS = {"debug": "I", "info": "I", "warning": "W", "error": "E", "exception": "E"}


class Style(NamedTuple):
    """How a serving process writes its log."""

    format: str  # "text" or "json"
    now: Callable[[], float]  # seconds since the epoch
    stream: TextIO


class Verbatim(str):
    """A message that a text log writes as it is, over several lines if it has some: a table, or JSON to be cut out of the log."""

    __slots__ = ()


class Logger:
    """What structlog's bound logger offers, made when it is first used. Key words become fields: pod="ns/name", node, err."""

    __slots__ = ("_bound", "_fields", "_name", "_style")

    def __init__(self, name: str, **fields: object) -> None:
        self._name = name
        self._fields = fields
        self._bound: Any = None
        self._style: Style | None = None  # what _bound was made for

    def bind(self, **fields: object) -> Logger:
        """Return a logger that adds these fields to each message."""
        return Logger(self._name, **self._fields, **fields)

    def debug(self, event: str, **fields: object) -> None:
        if _verbosity >= DEBUG_VERBOSITY and not _quiet:
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
        """Log an error with the exception that is being handled, or the one given as exc_info."""
        self._logger().exception(event, **fields)

    def _logger(self) -> Any:
        import structlog  # noqa: PLC0415  # see the module's docstring

        if _quiet:
            _leave_out_locals()
            return structlog.wrap_logger(structlog.PrintLogger(sys.stderr)).bind(**self._fields)
        if self._bound is None or self._style is not _style:
            self._style = _style
            _leave_out_locals()
            self._bound = structlog.get_logger(self._name) if _style is None else _styled(_style, self._name)
            self._bound = self._bound.bind(**self._fields)
        return self._bound


_quiet = False
_verbosity = 0
_style: Style | None = None  # None: structlog's own


def _leave_out_locals() -> None:
    """Let structlog write tracebacks without the values of variables: a scheduler's are the whole cluster, which takes minutes to write."""
    import structlog  # noqa: PLC0415  # see the module's docstring

    for processor in structlog.get_config()["processors"]:
        if isinstance(processor, structlog.dev.ConsoleRenderer):
            processor.exception_formatter = structlog.dev.plain_traceback


def get_logger(name: str) -> Logger:
    """Return the logger of a module: `log = get_logger(__name__)`."""
    return Logger(name)


def be_quiet() -> None:
    """Log errors only, to stderr, from now on."""
    global _quiet  # noqa: PLW0603  # one process, one log
    _quiet = True


def write_logs(style: Style | None) -> None:
    """Write all logs in this style from now on; None: as structlog does."""
    global _style  # noqa: PLW0603  # one process, one log
    _style = style


def line(name: str, event: str, when: float, **fields: object) -> str:
    """Write an error as the log would at that time (seconds since the epoch), for a caller that will have no time to log it."""
    stream = io.StringIO()
    style = Style("text", lambda: when, stream) if _style is None else _style._replace(now=lambda: when, stream=stream)
    _styled(style, name).error(event, **fields)
    return stream.getvalue()


def set_verbosity(level: int) -> None:
    """Set -v."""
    global _verbosity  # noqa: PLW0603  # one process, one log
    _verbosity = level


def verbosity() -> int:
    """Return -v."""
    return _verbosity


def _styled(style: Style, name: str) -> Any:
    """Return a structlog logger that writes one line a message in this style."""
    import structlog  # noqa: PLC0415  # see the module's docstring

    def stamp(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        fields["ts"] = style.now()
        return fields

    render = _json_line if style.format == "json" else _text_line
    unnamed = structlog.wrap_logger(
        structlog.PrintLogger(style.stream),
        processors=[structlog.processors.add_log_level, structlog.processors.format_exc_info, stamp, render],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )
    return unnamed.bind(logger=name.removeprefix("koordsched."))


def _json_line(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> str:
    """Write component-base's keys first: ts in milliseconds, then logger, level and message."""
    when, event = fields.pop("ts"), fields.pop("event")
    head = {"ts": round(when * 1000, 3), "logger": fields.pop("logger"), "level": fields.pop("level"), "msg": event}
    return json.dumps({**head, **fields}, default=str, ensure_ascii=False)


def _text_line(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> str:
    """Write klog's line: severity, date and local time, logger], "message" key="value"; a traceback follows on lines of its own."""
    when = datetime.fromtimestamp(fields.pop("ts"))  # klog writes local time
    head = f"{LETTERS[fields.pop('level')]}{when:%m%d %H:%M:%S.%f} {fields.pop('logger')}]"
    event, trace = fields.pop("event"), fields.pop("exception", "")
    rest = "".join(f" {key}={_text_value(value)}" for key, value in fields.items())
    return f"{head} {event if isinstance(event, Verbatim) else _quoted(event)}{rest}" + (f"\n{trace}" if trace else "")


def _text_value(value: object) -> str:
    if isinstance(value, bool | int | float | list | tuple | dict):
        return json.dumps(value, default=str, ensure_ascii=False)
    return _quoted(value)


def _quoted(text: object) -> str:
    return json.dumps(str(text), ensure_ascii=False)


@contextmanager
def carrying_library_logs() -> Iterator[None]:
    """Write warnings and errors of libraries into our log, in our format, for the length of a block."""
    handler = _LibraryLogHandler(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


class _LibraryLogHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log = get_logger(record.name)
        if record.exc_info:
            log.exception(record.getMessage(), exc_info=record.exc_info)
        elif record.levelno >= logging.ERROR:
            log.error(record.getMessage())
        else:
            log.warning(record.getMessage())
