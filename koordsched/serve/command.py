"""`koord-scheduler --config FILE`: what a serving process needs before it begins: logs, event loop, garbage collector."""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import sys
from random import Random
from typing import TYPE_CHECKING, TextIO, cast

import msgspec

from koordsched import __version__
from koordsched.clock import RealClock
from koordsched.config import SchedulerConfiguration
from koordsched.config.duration import Duration
from koordsched.config.features import changed_without_effect
from koordsched.config.flag_table import NOT_ACTED_ON, Flags
from koordsched.config.flag_values import quoted, written
from koordsched.config.flags import FLAGS, not_acted_on
from koordsched.config.loading import ignored_flags
from koordsched.config.writing import dump_config
from koordsched.log import Style, carrying_library_logs, get_logger, set_verbosity, write_logs
from koordsched.serve.process import Process, ServeOptions
from koordsched.serve.tracing import tracing_of
from koordsched.server.leadership import DeadMan
from koordsched.server.log_stream import QueuedStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

log = get_logger(__name__)

GC_THRESHOLDS = (10_000, 50, 100)
"""Objects that outnumber the freed ones by this make a collection (CPython's 700 means one for every few watch events). Nearly everything
here dies by its reference count; what is left are cycles of tasks and exceptions, which may wait. Decoding and handling an initial list
of bound pods: 49 us a pod with CPython's thresholds, 33 with these, 29 without any collection, as `koordsched.frozen` has it. The loop
stands still meanwhile: 1 to 4 ms among 10,000 objects, as Structs of the API are not looked at (`api.meta.Api`)."""
SWITCH_SECONDS = 0.0005
"""How long a thread may keep Python's lock when another wants it. The scheduling loop wants it back for each of its callbacks: with
CPython's 5 ms a few of them in a turn, beside a serving thread that is at work, are a lag of 50 ms."""
FLAGS_VERBOSITY = 1
CONFIG_VERBOSITY = 2


class Start(msgspec.Struct, frozen=True):
    """The command line, read. `doubts`: what a valid configuration probably does not mean."""

    flags: Flags
    config: SchedulerConfiguration
    doubts: Iterable[str] = ()


def run_serve(start: Start) -> int:
    """Serve until a signal to stop; return the exit code."""
    if not start.flags.async_log:
        return _serve(start, sys.stderr, os._exit)
    with QueuedStream(sys.stderr, start.flags.async_log_queue_length) as stream:

        def exit_at_once(code: int) -> None:
            stream.drain()
            os._exit(code)

        return _serve(start, cast("TextIO", stream), exit_at_once)


def _serve(start: Start, stream: TextIO, exit_at_once: Callable[[int], object]) -> int:
    clock = RealClock()
    write_logs(Style(start.flags.logging_format, clock.now, stream))
    set_verbosity(start.flags.v)
    say_what_starts(start)
    gc.set_threshold(*GC_THRESHOLDS)
    sys.setswitchinterval(SWITCH_SECONDS)
    new_loop = _loop_factory()
    with carrying_library_logs(), tracing_of(os.environ, clock) as tracing, asyncio.Runner(loop_factory=new_loop) as runner:
        options = ServeOptions(
            config=start.config,
            flags=start.flags,
            clock=clock,
            random=Random(),
            exit_at_once=exit_at_once,
            guard=DeadMan(clock),
            new_loop=new_loop,
            tracing=tracing,
        )
        return runner.run(Process(options).run())


def say_what_starts(start: Start) -> None:
    """Log version, flags and configuration, and everything about them that the operator may not expect."""
    flags, config = start.flags, start.config
    values = {name: getattr(flags, FLAGS[name].name) for name in sorted(flags.given)}
    given = {name: value.text if isinstance(value, Duration) else value for name, value in values.items()}
    log.info("koord-scheduler starts", version=__version__, python=platform.python_version(), flags=given)
    if flags.v >= FLAGS_VERBOSITY:
        for name in sorted(FLAGS):
            log.info(f"FLAG: --{name}={quoted(written(getattr(flags, FLAGS[name].name)))}")
    if flags.v >= CONFIG_VERBOSITY:
        log.info("using the configuration", config=dump_config(config))
    for doubt in start.doubts:
        log.warning(doubt)
    for flag in not_acted_on(flags):
        log.warning("a flag changes nothing in this version", flag=flag, because=NOT_ACTED_ON[flag.removeprefix("--")])
    for gate, because in changed_without_effect(flags.gates).items():
        log.warning("a feature gate changes nothing in this version", gate=gate, because=because)
    for flag in ignored_flags(flags):
        log.warning("a flag is ignored because --config is given", flag=flag)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop  # noqa: PLC0415  # not on every platform
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
