"""The scheduling queue: pods that wait, where, and what wakes them (framework.md §3).

`scheduling_queue` is the public class. `events` and `event_detection` say what happened; `hints` who wants to hear of it; `profile` what
the queue asks of the framework; `queued_pod` is a waiting pod. `sub_queues` holds who is where (`heap`, `backoff`, `unschedulable`);
`waking` decides what an event moves (docs/decisions/0003-waking-by-shape.md). `inflight`, `nominator` and `history` are bookkeeping.
"""
