"""PrioritySort: the order of the active queue, by priority and then by time (framework.md §3.1)."""
