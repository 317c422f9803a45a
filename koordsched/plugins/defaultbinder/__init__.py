"""DefaultBinder: binds a pod with a POST to its binding subresource (framework.md §6)."""
