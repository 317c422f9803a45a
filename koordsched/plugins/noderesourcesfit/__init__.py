"""NodeResourcesFit: keeps pods off nodes without enough left, and prefers emptier or fuller ones (framework.md §10.4)."""

from koordsched.framework.tooling import Tooling

TOOLING = Tooling(
    explanations=(
        (r"Insufficient (\S+)", "these nodes have less free {0} than the pod requests"),
        (r"Too many pods", "these nodes run as many pods as they may"),
    )
)
