"""NodeUnschedulable: keeps pods off cordoned nodes (framework.md §10.1)."""
