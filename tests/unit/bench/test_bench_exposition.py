"""What side_by_side reads out of /metrics."""

from __future__ import annotations

import math

import pytest
from side_by_side.exposition import Bucket, Histogram, counter, histogram, request_key

PAGE = """\
# HELP took_seconds Time.
# TYPE took_seconds histogram
took_seconds_bucket{le="0.001"} 2
took_seconds_bucket{le="0.002"} 6
took_seconds_bucket{le="0.004"} 8
took_seconds_bucket{le="+Inf"} 8
took_seconds_sum 0.012
took_seconds_count 8
# TYPE took_seconds_more gauge
took_seconds_more 7
# TYPE apiserver_request_total counter
apiserver_request_total{code="201",resource="pods",subresource="binding",verb="POST"} 5
apiserver_request_total{code="409",resource="pods",subresource="binding",verb="POST"} 2
apiserver_request_total{code="200",resource="nodes",subresource="",verb="LIST"} 1
"""


def took() -> Histogram:
    found = histogram(PAGE, "took_seconds")
    assert found is not None
    return found


def test_a_histogram_is_its_cumulative_buckets_and_its_sum() -> None:
    assert took() == Histogram([Bucket(0.001, 2), Bucket(0.002, 6), Bucket(0.004, 8), Bucket(math.inf, 8)], 0.012)
    assert took().count == 8
    assert took().mean == pytest.approx(0.0015)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        (0.125, 0.0005),  # the 1st of 8 is half way through the first bucket, which begins at 0
        (0.25, 0.001),  # the 2nd is the end of the first bucket
        (0.5, 0.0015),  # the 4th is the 2nd of 4 in the second
        (1.0, 0.004),
    ],
)
def test_a_quantile_lies_in_its_bucket_by_the_share_of_the_bucket_below_it(part: float, value: float) -> None:
    assert took().quantile(part) == pytest.approx(value)


def test_a_quantile_above_the_last_bound_is_that_bound() -> None:
    assert Histogram([Bucket(1.0, 1), Bucket(math.inf, 4)], 9.0).quantile(0.99) == 1.0


def test_no_observation_has_neither_mean_nor_quantile() -> None:
    empty = Histogram([Bucket(1.0, 0), Bucket(math.inf, 0)], 0.0)
    assert math.isnan(empty.mean)
    assert math.isnan(empty.quantile(0.5))


def test_a_page_without_the_histogram_has_none() -> None:
    assert histogram(PAGE, "other_seconds") is None
    assert histogram("", "took_seconds") is None


def test_a_counter_is_added_up_over_the_labels_that_do_not_matter() -> None:
    assert counter(PAGE, "apiserver_request_total", request_key) == {"POST pods/binding": 7, "LIST nodes": 1}
