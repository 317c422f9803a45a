"""Preemption: evicting pods to make room for a pod that fits nowhere, or for a job (framework.md §7).

An engine for plugins at PostFilter. A plugin makes one with its rules, and hands it the calls of PreEnqueue, PostFilter, `may_help` and
`expected_refusal`; `plugins.defaultpreemption` is nothing but that. In reading order:

- `rules`: what a plugin decides: which pods may be victims of which, who may preempt, texts.
- `engine`: one attempt in the order of the reference: eligible, candidates, extenders, choice, evictions, nominations.
- `candidates`: which nodes could be made free for a pod, the exact victims on each, and which candidate is the best.
- `job`: the same for several pods that need a node each, all or none.
- `regions`: sets of nodes of which one has to take the whole job.
- `job_by_amounts`: the cheapest nodes for it where amounts decide.
- `limit`: victims on any nodes, for a pod that the limit of its group keeps out.
- `estimate`: what is known of all nodes without asking filters, on the kernel `_core.dry_run`.
- `victims_index`: the pods on nodes by priority and group, and the disruption budgets that cover them.
- `eviction`: evicting the victims while the preemptors wait.
"""
