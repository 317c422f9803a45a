"""What the scheduler knows about nodes and the pods on them.

`cache` has the states of pods between being assumed and being seen bound, `nodes` what plugins see of nodes, `columns` the names of the
node table's columns (`host_ports`: of host ports), `pod_counts` how many pods match a query, `plugin_state` what plugins keep beside it.
"""
