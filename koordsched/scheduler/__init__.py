"""The scheduler: `scheduler` wires and runs, `cycle` is a pod's way from the queue to its node, `selection` finds the node, `failure` is
what happens when there is none, `handlers` bring in what the cluster says, `status_writer` and the event recorder tell users."""
