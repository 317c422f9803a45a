"""No value that a user writes can add a line to a page of metrics: what is put in is found again, and nothing else."""

from __future__ import annotations

import asyncio
from time import perf_counter

from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from support.builders import pod

from koordsched.metrics import Counter, CounterFunction, Gauge, GaugeFunction, Histogram, Registry, exposition
from koordsched.serve.pod_resources import PODS_A_PIECE, resource_metrics
from koordsched.slices import Slices

Samples = set[tuple[str, tuple[tuple[str, str], ...], float]]
FORGED = 'x"} 1\nup{job="prometheus"} 0\n# {y="'
hostile = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('\n\r\\"{},=# \u2028\x85\x00'), max_size=30)


def samples(page: bytes) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items())), sample.value)
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


@given(hostile, hostile)
def test_a_counter_shows_its_labels_and_nothing_else(first: str, second: str) -> None:
    registry: Registry = []
    counter = Counter(registry, "scheduler_things_total", "Things.", ["profile", "event"])
    gauge = Gauge(registry, "scheduler_level", "A level.", ["profile"])
    histogram = Histogram(registry, "scheduler_seconds", "Seconds.", ["profile"], bounds=[1.0])
    counter.increment(first, second)
    gauge.add(4, first)
    histogram.observe(0.5, second)
    GaugeFunction(registry, "scheduler_read", "Read.", lambda: {first: 7}, "event")
    CounterFunction(registry, "scheduler_count_total", "Counted.", lambda: {"": 9})
    assert samples(exposition(registry)) == {
        ("scheduler_things_total", (("event", second), ("profile", first)), 1.0),
        ("scheduler_level", (("profile", first),), 4.0),
        ("scheduler_seconds_bucket", (("le", "1.0"), ("profile", second)), 1.0),
        ("scheduler_seconds_bucket", (("le", "+Inf"), ("profile", second)), 1.0),
        ("scheduler_seconds_count", (("profile", second),), 1.0),
        ("scheduler_seconds_sum", (("profile", second),), 0.5),
        ("scheduler_read", (("event", first),), 7.0),
        ("scheduler_count_total", (), 9.0),
    }


@given(hostile, hostile, hostile, hostile, hostile)
@example(*[FORGED] * 5)
def test_the_resources_of_a_pod_show_its_names_and_nothing_else(
    namespace: str, name: str, node: str, scheduler: str, resource: str
) -> None:
    made = pod(name, namespace).request(resource, "3").on(node).scheduler(scheduler).build()
    page = asyncio.run(resource_metrics([made], Slices(perf_counter)))
    ((metric, labels, value),) = samples(page)
    assert (metric, value) == ("kube_pod_resource_request", 3.0)
    assert {key: text for key, text in labels if key != "unit"} == {
        "namespace": namespace,
        "pod": name,
        "node": node,
        "scheduler": scheduler,
        "priority": "",
        "resource": resource,
    }


async def test_the_page_of_many_pods_has_each_of_them_once_and_one_head_a_metric() -> None:
    pods = [pod(f"p{number}").cpu("1").build() for number in range(3 * PODS_A_PIECE + 1)]
    page = await resource_metrics(pods, Slices(perf_counter))
    assert page.count(b"# HELP") == page.count(b"# TYPE") == 2
    assert sorted(dict(labels)["pod"] for _, labels, _ in samples(page)) == sorted(each.metadata.name for each in pods)
