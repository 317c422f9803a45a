"""TaintToleration: keeps pods off nodes with taints that they do not tolerate (framework.md §10.1)."""
