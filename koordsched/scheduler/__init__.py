"""The scheduler: `scheduler` wires, starts and stops, `cycle` is a pod's way from the queue to its node, `failure` is what happens when
there is none, `handlers` bring in what the cluster reports, `status_writer` and the event recorder report to users."""
