"""Which objects are meant: label selectors, node selector requirements and field selectors.

`labels` compiles a LabelSelector, `text` reads the `a=b,c in (d,e)` form, `fields` reads and applies `spec.nodeName=`, `requirements` is
what a single operator means. All of it is exact Kubernetes (apimachinery's labels and fields packages). A selector that cannot be
understood is a SelectorError; what to do then is the caller's: the scheduler skips such terms of existing pods (framework.md §11).
"""

from koordsched.api.selectors.fields import FieldSelector, parse_field_selector
from koordsched.api.selectors.labels import EVERYTHING, NOTHING, LabelSelectorMatcher, label_selector_matcher, map_matcher
from koordsched.api.selectors.requirements import SelectorError, requirement_error, requirement_matches
from koordsched.api.selectors.text import parse_label_selector

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
