"""DefaultPreBind: one patch for everything that other plugins want written to a pod before it is bound (frameworkext.md §1.1 and §6)."""
