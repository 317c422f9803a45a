"""DefaultPreemption: evicting pods of lower priority for a pod that fits nowhere (framework.md §7), by `framework.preemption`."""
