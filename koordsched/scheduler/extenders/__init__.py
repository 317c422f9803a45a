"""Extenders: HTTP servers of the operator's that take part in scheduling (framework.md §8).

`wire` is what is said, `transport` how it is sent, `extender` one server, `chain` all of them in their order, `search` a pod's way to a
node when they have a say in it, `binding` that to its binding, `hints` what retries the pods they refuse, and `ignored` what they take off
NodeResourcesFit's hands. What speaks HTTP is imported only if an extender is configured.
Reference: extender.go and schedule_one.go of Kubernetes v1.35.
"""
