"""Which objects are meant: label selectors, node selector requirements and field selectors.

`labels` says what an operator means, compiles a LabelSelector and reads the `a=b,c in (d,e)` form; `fields` reads and applies
`spec.nodeName=`. All of it is exact Kubernetes (apimachinery's labels and fields packages). A selector that cannot be understood is a
SelectorError; what to do then is the caller's: the scheduler skips such terms of existing pods (framework.md §11).
"""

from koordsched.api.selectors.fields import FieldSelector, parse_field_selector
from koordsched.api.selectors.labels import (
    EVERYTHING,
    NOTHING,
    LabelSelectorMatcher,
    SelectorError,
    label_selector_matcher,
    map_matcher,
    parse_label_selector,
    requirement_error,
    requirement_matches,
)

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "FieldSelector",
    "LabelSelectorMatcher",
    "SelectorError",
    "label_selector_matcher",
    "map_matcher",
    "parse_field_selector",
    "parse_label_selector",
    "requirement_error",
    "requirement_matches",
]
