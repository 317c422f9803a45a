"""DeviceShare: which GPUs, RDMA interfaces, FPGAs and accelerators a pod gets (deviceshare.md).

For `simulate` and `test`: `layouts`, devices of a node in short; `tooling`.
"""
