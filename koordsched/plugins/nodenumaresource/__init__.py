"""NodeNUMAResource: exact CPUs for pods that need them, and resources from as few NUMA nodes as wanted (nodenumaresource.md).

In reading order: `reasons` of refusals; `pod_demand`, what a pod asks for; `node_topology`, what a node has; `node_allocations`, what pods
hold of it; `state`, that of all nodes; `allocator`, what a pod gets; `filtering`; `reserved`, which reservations have what a pod asks for;
`queueing_hints`; `endpoint`, what is shown over HTTP; `plugin`. For `simulate` and `test`: `layouts` of CPUs in short, `tooling`.
"""
