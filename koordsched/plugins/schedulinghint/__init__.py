"""SchedulingHint: nodes that an annotation of the pod requires or prefers."""
