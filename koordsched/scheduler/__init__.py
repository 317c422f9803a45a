"""One scheduler on one cluster.

`scheduler` wires its parts, starts and stops them; `context` is what they share, `plugin_handle` what plugins see of it. `cycle` is a pod's
way from the queue to its node, on `binding_tasks` as soon as a node is found; `nominated_nodes` is what nominations mean to it, `extenders`
have a say in it, `failure` is what happens when there is no node. `handlers` bring in what the informers report, `late_lists` keeps pods
waiting for what few need of it, `status_writer` and the event recorders report to users. `debugger` shows the cache and compares it with
the cluster.
"""
