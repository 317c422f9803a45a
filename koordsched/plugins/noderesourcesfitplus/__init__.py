"""NodeResourcesFitPlus: prefers emptier or fuller nodes, resource by resource as configured (frameworkext.md §6)."""
