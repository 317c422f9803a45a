"""The scheduling queue: pending pods, and the events that move them (framework.md §3).

In reading order:
- `scheduling_queue`: the public class. It puts the parts below together.
- `events`, `event_detection`: cluster events, and what an update of a node or a pod means.
- `hints`: the events that each plugin registered, with their queueing hints. `profile`: what the queue asks of the framework.
- `moving`: which unschedulable pods an event moves, where to, and why others stay (docs/decisions/0003-moving-by-shape.md).
- `queued_pod`: a pending pod, and the group in which it waits. `sub_queues`: the active queue, the backoff queue (`backoff`) and the
  unschedulable pods (`unschedulable`), and the transitions between them. `heap` is what they are made of.
- `inflight`: pods that are being scheduled, and the events since they were popped. `nominator`: nominated pods.
- `invariants`: checked by tests after every step.
"""
