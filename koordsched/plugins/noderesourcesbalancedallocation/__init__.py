"""NodeResourcesBalancedAllocation: prefers nodes whose resources would be used to the same degree (framework.md §10.5)."""
