"""Extenders: HTTP servers of the operator's that take part in scheduling (framework.md §8).

`wire` is the bodies of requests and answers, `transport` how they are sent, `extender` one server, `chain` all of them in their order,
`asking` what a pod's scheduling cycle asks them and makes of the answer. What speaks HTTP is imported only if an extender is configured.
Reference: extender.go and schedule_one.go of Kubernetes v1.35.
"""
