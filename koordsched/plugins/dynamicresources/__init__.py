"""DynamicResources: keeps pods with resource claims pending, because this version does not allocate claims (framework.md §10.12)."""
