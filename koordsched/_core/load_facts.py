"""What `load.LoadTable` holds of one node, as it is shown to people, tests and the standing check."""

from __future__ import annotations

from typing import NamedTuple

Amounts = tuple[int, ...]


class NodeLoad(NamedTuple):
    """One amount for each resource of the table's vector; cpu in milli. In the order of the columns of `load.pxd`."""

    capacity: Amounts
    filter_usage: Amounts
    score_usage: Amounts
    prod_usage: Amounts
    delta: Amounts
    prod_delta: Amounts
    estimated: Amounts
    most: Amounts  # 2^63 - 1: no threshold holds
    prod_most: Amounts
    room: tuple[float, ...]
    prod_room: tuple[float, ...]
    spare: tuple[float, ...]
    prod_spare: tuple[float, ...]
    share: tuple[float, ...]
    has_metric: bool
    is_measured: bool
    is_expired: bool
    is_aggregated: bool
    has_thresholds: bool
    has_prod_thresholds: bool
    filters_by_estimates: bool
    scores_by_estimates: bool
    verdict: int  # 0 passes, 1 compares, 2 refuses
    prod_verdict: int
