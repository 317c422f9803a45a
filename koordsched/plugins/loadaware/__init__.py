"""LoadAwareScheduling: nodes by what they really use, not by what their pods request (frameworkext.md §5).

In reading order: `estimation`, what a pod will use; `thresholds`, what a node may use; `measurements`, what a NodeMetric says;
`node_loads`, all of it as columns, under the arguments of one or more profiles; `state`, which keeps them true; `check`, which compares it
with the cluster; `queueing_hints`; `endpoint`, what is shown over HTTP; `plugin`. For `simulate` and `test`: `tooling`.
"""
