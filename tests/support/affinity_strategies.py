"""Pods with all sorts of affinity to each other, and the nodes they care about, for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from koordsched.api.core import PodAffinityTerm
from support.affinity import Far, Near, selector, term, with_affinity
from support.builders import NodeBuilder, PodBuilder, node, pod, requirement

NAMES = [f"n{i}" for i in range(5)]
KEYS = ["kubernetes.io/hostname", "zone", "rack"]
NAMESPACES = ["a", "b"]

names, spaces = st.sampled_from(NAMES), st.sampled_from(NAMESPACES)
labels = st.fixed_dictionaries({}, optional={"app": st.sampled_from(["x", "y"]), "tier": st.sampled_from(["1", "2"])})
expressions = st.sampled_from(
    [
        requirement("app", "In", "x", "y"),
        requirement("app", "NotIn", "x"),
        requirement("tier", "Exists"),
        requirement("tier", "DoesNotExist"),
        requirement("tier", "In", "1"),
    ]
)
selectors = st.one_of(
    st.none(),
    st.builds(selector),
    st.sampled_from([selector({"app": "x"}), selector({"app": "y"}), selector({"app": "x", "tier": "1"})]),
    st.builds(lambda each: selector(None, each), expressions),
)
namespace_selectors = st.sampled_from(
    [None, None, selector(), selector({"env": "prod"}), selector(None, requirement("env", "NotIn", "prod"))]
)
key_lists = st.sampled_from([(), (), ("tier",), ("app", "tier")])


@st.composite
def terms(draw: st.DrawFn) -> PodAffinityTerm:
    meant = draw(selectors)
    # An API server takes these only with a selector, and not for keys that the selector reads.
    free = () if meant is None else {"app", "tier"} - meant.match_labels.keys() - {each.key for each in meant.match_expressions}
    return term(
        draw(st.sampled_from(KEYS)),
        meant,
        namespaces=draw(st.sampled_from([(), (), ("a",), ("a", "b")])),
        namespace_selector=draw(namespace_selectors),
        match_label_keys=tuple(key for key in draw(key_lists) if key in free),
        mismatch_label_keys=tuple(key for key in draw(st.sampled_from([(), ("app",)])) if key in free),
    )


required = st.lists(terms(), max_size=2)
preferred = st.lists(st.tuples(st.integers(1, 100), terms()), max_size=2)
nears = st.one_of(st.none(), st.builds(Near, required, preferred))
fars = st.one_of(st.none(), st.builds(Far, required, preferred))


@st.composite
def pods(draw: st.DrawFn) -> PodBuilder:
    made = pod("p", draw(spaces))
    for key, value in draw(labels).items():
        made = made.label(key, value)
    return with_affinity(made, draw(nears), draw(fars))


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeBuilder:
    made = node(name)
    for key, value in draw(
        st.fixed_dictionaries({}, optional={"zone": st.sampled_from(["1", "2"]), "rack": st.sampled_from(["", *NAMES])})
    ).items():
        made = made.label(key, value)
    return made
