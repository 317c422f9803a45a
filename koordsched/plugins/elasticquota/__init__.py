"""ElasticQuota: what the pods of a team may use together, and what it may borrow of others (elasticquota.md).

In reading order: `metrics`; `manager`, one tree of quotas on the kernel `_core.quota`; `association`, which quota a pod belongs to;
`hooks`, out-of-tree code that takes part; `changes`, what follows from an event; `problems`, mistakes in quotas; `node_totals`, what there
is to share; `counting`, how pods count; `state`, which keeps all of it true; `check`, which compares it with the cluster; `reasons`, the
texts of refusals; `group_admission`, one check for pods that are placed together; `preemption`, which pods may be evicted for which;
`gauges` and `endpoint`, what is shown; `objects_controller`, what is written to quotas; `revoke`, which pods of over-used quotas go;
`plugin`; `tooling`, what `simulate` shows.
"""
