"""Annotations about load are read as Go's encoding/json reads them for the reference (frameworkext.md §5.1)."""

from __future__ import annotations

import pytest

from koordsched.api.koordinator.loads import RAW_ALLOCATABLE, SCALING_FACTORS, custom_factors, raw_allocatable
from koordsched.api.koordinator.reading import Malformed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("null", {}),
        ("{}", {}),
        ('{"cpu": "6500m", "memory": "6Gi"}', {"cpu": "6500m", "memory": "6Gi"}),
        ('{"cpu": 2.5}', {"cpu": 2.5}),
        ('{"cpu": " 2"}', {"cpu": " 2"}),
        ('{"cpu": null, "memory": "6Gi"}', {"cpu": "0", "memory": "6Gi"}),
    ],
)
def test_a_null_in_what_a_node_has_is_0(text: str, expected: dict[str, object]) -> None:
    assert raw_allocatable({RAW_ALLOCATABLE: text}) == expected


@pytest.mark.parametrize("text", ["{", "[]", '{"cpu": "x"}', '{"memory": "6Gi", "cpu": ""}', '{"cpu": true}', '{"cpu": []}'])
def test_one_amount_that_is_none_makes_the_whole_annotation_malformed(text: str) -> None:
    with pytest.raises(Malformed, match=f"^{RAW_ALLOCATABLE}: "):
        raw_allocatable({RAW_ALLOCATABLE: text})


@pytest.mark.parametrize(
    ("text", "expected"), [("", {}), ('{"cpu": 60}', {"cpu": 60}), ('{"cpu": null, "memory": 30}', {"cpu": 0, "memory": 30})]
)
def test_a_null_factor_is_0(text: str, expected: dict[str, int]) -> None:
    assert custom_factors({SCALING_FACTORS: text}) == expected
