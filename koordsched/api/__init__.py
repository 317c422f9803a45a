"""Kubernetes and Koordinator objects as scheduling reads them.

The kinds are in `core`, `storage`, `groups` (the smaller API groups) and `koordinator`; `kinds` lists them all. What reading them needs
lives beside them: `quantity`, `resources`, `names`, `selectors`, `volumes`, `validation`. Everything here is values: no I/O, no clock, no
state.
"""
