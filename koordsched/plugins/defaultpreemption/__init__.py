"""DefaultPreemption: evicting pods of lower priority for a pod that fits nowhere (framework.md §7).

In reading order:
- `plugin`: the extension points, and which pods may preempt.
- `engine`: one attempt in the order of the reference: eligible, candidates, extenders, choice, preparation.
- `candidates`: which nodes could be made free, the exact victims on each, and which candidate is the best.
- `estimate`: what is known of all nodes without asking filters, on the kernel `_core.dry_run`.
- `victims_index`: the pods on nodes by priority, and the disruption budgets that cover them.
- `preparation`: evicting the victims while the preemptor waits.
"""
