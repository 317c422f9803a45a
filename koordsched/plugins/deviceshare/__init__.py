"""DeviceShare: which GPUs, RDMA interfaces, FPGAs and accelerators a pod gets (deviceshare.md).

In reading order: `templates`, sizes into which cards can be cut; `reasons` of refusals; `node_devices`, what Devices and Nodes say;
`pod_demand`, what a pod asks for; `allocated`, what one holds; `reserved`, how devices that reservations hold are taken; `state`, what all
nodes have and pods hold of it; `check`, its standing comparison with objects; `numa_hints`; `node_locks` and `adaptation`, what the device
plugins of vendors are given; `planning` and `gauges`, metrics; `queueing_hints`; `endpoint`, what is shown over HTTP; `plugin`;
`fragmentation`, the scoring strategy LeastFragmented.

For `simulate` and `test`: `layouts`, devices of a node in short; `gpu_report`; `tooling`.
"""
