"""NodeResourcesFit: keeps pods off nodes without enough left, and prefers emptier or fuller ones (framework.md §10.4)."""
