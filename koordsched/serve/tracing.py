"""Tracing as the environment asks for it: OpenTelemetry's variables, its SDK and an exporter (docs/tracing.md).

The packages of the extra `tracing` are imported only where a collector is named. Whatever is wrong with them or with it costs the spans,
never the scheduler.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from koordsched import __version__
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from koordsched.clock import Clock
    from koordsched.scheduler.tracing import Tracing

log = get_logger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
HTTP, GRPC = "http/protobuf", "grpc"
SERVICE = "koord-scheduler"
END_SECONDS = 3.0
"""How long the last spans may take to be sent when the process ends: it has more to do within its grace period."""


def is_asked_for(environment: Mapping[str, str]) -> bool:
    """Answer whether a collector is named, and tracing not turned off, in the words of OpenTelemetry's specification."""
    disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    exporters = environment.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    return not disabled and exporters == "otlp" and any(environment.get(name) for name in ENDPOINTS)


@contextmanager
def tracing_of(environment: Mapping[str, str], clock: Clock) -> Iterator[Tracing | None]:
    """Trace as the environment asks, and send what is left at the end; None: no attempt is traced.

    environment: that of this process, which the SDK reads by itself.
    """
    if not is_asked_for(environment):
        yield None
        return
    protocol = next((found for name in PROTOCOLS if (found := environment.get(name))), HTTP)
    try:
        made = _made(protocol, clock)
    except ImportError as error:
        log.warning("no attempt is traced: a package is missing, see the extra koordsched[tracing]", missing=error.name, protocol=protocol)
        yield None
        return
    except ValueError as error:
        log.warning("no attempt is traced: a variable of OpenTelemetry cannot be used", err=str(error))
        yield None
        return
    tracing, end = made
    log.info("attempts are traced", endpoint=next(name for name in ENDPOINTS if environment.get(name)), protocol=protocol)
    try:
        yield tracing
    finally:
        end()


def _made(protocol: str, clock: Clock) -> tuple[Tracing, Callable[[], None]]:
    """Return what traces, and what sends the last spans. ImportError, ValueError."""
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  # optional packages, slow to import

    processor = BatchSpanProcessor(_exporter(protocol))
    return make_tracing(processor, clock)


def _exporter(protocol: str) -> Any:
    if protocol == GRPC:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # type: ignore[import-not-found]  # noqa: PLC0415
            OTLPSpanExporter as GrpcExporter,
        )

        return GrpcExporter()
    if protocol != HTTP:
        raise ValueError(f"{protocol!r}: expected {HTTP} or {GRPC} as protocol of OTLP")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

    return OTLPSpanExporter()


def make_tracing(processor: Any, clock: Clock) -> tuple[Tracing, Callable[[], None]]:
    """Return what traces with this span processor, sampling as the environment says, and what ends it."""
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource  # noqa: PLC0415

    from koordsched.scheduler.tracing import Tracing  # noqa: PLC0415  # imports optional packages

    own = Resource.create({SERVICE_NAME: SERVICE, SERVICE_VERSION: __version__}).merge(OTELResourceDetector().detect())

    def end() -> None:  # the SDK would wait for as long as an export may take, 10 s by default
        sending = threading.Thread(target=processor.shutdown, name="last spans", daemon=True)
        sending.start()
        sending.join(END_SECONDS)
        if sending.is_alive():
            log.warning("the collector did not take the last spans in time", seconds=END_SECONDS)

    return Tracing(processor, own, sampler(), clock), end


def sampler() -> Callable[[], int]:
    """Return what draws the id of a trace, and returns it if the sampler of OTEL_TRACES_SAMPLER takes it, else 0."""
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  # optional packages, slow to import
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator  # noqa: PLC0415
    from opentelemetry.sdk.trace.sampling import Decision, ParentBased, TraceIdRatioBased  # noqa: PLC0415

    from koordsched.scheduler.tracing import SCHEDULE_ONE  # noqa: PLC0415

    new_id = RandomIdGenerator().generate_trace_id
    found = TracerProvider(shutdown_on_exit=False).sampler
    root = found._root if isinstance(found, ParentBased) else found  # an attempt has no parent
    if isinstance(root, TraceIdRatioBased):
        bound, limit = root.bound, root.TRACE_ID_LIMIT

        def below_bound() -> int:  # as the sampler has it, in a tenth of its 3 us: most attempts are asked and not taken
            trace_id = new_id()
            return trace_id if trace_id & limit < bound else 0

        return below_bound
    should_sample, taken = root.should_sample, Decision.RECORD_AND_SAMPLE

    def sampled() -> int:
        trace_id = new_id()
        return trace_id if should_sample(None, trace_id, SCHEDULE_ONE).decision is taken else 0

    return sampled
