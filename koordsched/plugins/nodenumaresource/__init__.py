"""NodeNUMAResource: exact CPUs for pods that need them, and resources from as few NUMA nodes as wanted (nodenumaresource.md)."""
