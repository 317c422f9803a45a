"""What counts as the same answer of DeviceShare although its words are not the same.

The reference looks at the types of a pod, and at the names of its resources, in the random order of a Go map; and behind "err:" stands
the text of a library.
"""

from __future__ import annotations

import re
from collections import Counter

from support.differential.choosing import Json
from support.differential.koordinator.device_pods import FPGA, RDMA, asked

NAMES = re.compile(r"(invalid resource device requests: )\[([^\]]*)\]")
LIBRARY = re.compile(r"err: .*?(?=\. (?:no new claims|not found|preemption)|$)", re.DOTALL)
LOCK_TIME = re.compile(r"(failed to lock node: )(?:parsing time \".*|invalid node lock value \"[^,\"]*,[^,\"]*,[^,\"]*\")")
"""A lock whose time cannot be read: the reference says what Go's library does, ours shows the lock."""
ANSWER = re.compile(r"(0/\d+ nodes are available: )(.*?)\.( .*|$)", re.DOTALL)
REASON = re.compile(r"(\d+) (.*)")
OF_DEVICES = re.compile(
    r"Insufficient (gpu|rdma|fpga) (devices|VirtualFunctions)|Insufficient (Partitioned |Topology Scoped )?GPU Devices"
    r"|Insufficient NUMA Scoped Devices|no matched GPU shared resource template"
    r"|node\(s\) (missing GPU .*|Unsupported .*|Device Joint-Allocate rules violation|Insufficient primary device)"
)


def comparable(message: str, pod: Json) -> str:
    """Return the message without what chance or a library decides."""
    found = NAMES.sub(lambda match: f"{match[1]}[{' '.join(sorted(match[2].split()))}]", message)
    found = LOCK_TIME.sub(r"\1the time of the lock", LIBRARY.sub("err", found))
    return one_reason(found) if several_types(pod) else found


def several_types(pod: Json) -> bool:
    """Say whether the pod asks for devices of more than one type, each of which may be the first that is short."""
    amounts = asked(pod)
    types = {RDMA: "rdma", FPGA: "fpga", "kubernetes.io/rdma": "rdma", "kubernetes.io/fpga": "fpga"}
    return len({types.get(name, "gpu") for name in amounts if name not in ("cpu", "memory")}) > 1


def one_reason(message: str) -> str:
    """Count all reasons that devices have as one; how many nodes preemption could help depends on which of them came first."""
    if not (match := ANSWER.fullmatch(message)):
        return message
    counts: Counter[str] = Counter()
    for reason in match[2].split(", "):
        if not (parts := REASON.fullmatch(reason)):
            return message
        counts["no devices" if OF_DEVICES.fullmatch(parts[2]) else parts[2]] += int(parts[1])
    return match[1] + ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
