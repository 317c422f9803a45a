"""Kubernetes and Koordinator objects as scheduling reads them.

One file an API group (`core`, `apps`, `storage`, `policy`, ...), `kinds` lists them all, and what reading them needs lives beside them:
`quantity`, `resources`, `selectors`, `images`, `validation`. Everything here is values: no I/O, no clock, no state.
"""
