"""A small cluster in which everything that a report shows is there: GPUs, quotas, gangs, a Reservation, pods that come, go and wait."""

from __future__ import annotations

from pathlib import Path
from random import Random

import yaml

QUOTA_API, RESERVATION_API = "scheduling.sigs.k8s.io/v1alpha1", "scheduling.koordinator.sh/v1alpha1"
POD_COLUMNS = "name,namespace,arrival,duration,cpu,memory,gpu,quota,gang,labels\n"
NODES = "name,cpu,memory,gpu,gpu_model\n" + "".join(
    f"gpu-{number},32,128Gi,4,A100\n" if number < 6 else f"cpu-{number},32,128Gi,,\n" for number in range(10)
)


def quota(name: str, parent: str, cpu: int, *, is_parent: bool = False) -> dict[str, object]:
    prefix = "quota.scheduling.koordinator.sh/"
    labels = {f"{prefix}parent": parent, f"{prefix}is-parent": str(is_parent).lower()}
    limits = {"min": {"cpu": cpu // 2, "memory": f"{2 * cpu}Gi"}, "max": {"cpu": cpu, "memory": f"{4 * cpu}Gi"}}
    return {"apiVersion": QUOTA_API, "kind": "ElasticQuota", "metadata": {"name": name, "labels": labels}, "spec": limits}


def reservation(name: str, owner: str, cpu: int) -> dict[str, object]:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": f"{cpu}Gi"}}}
    spec = {
        "template": {"spec": {"containers": [container]}},
        "owners": [{"labelSelector": {"matchLabels": {"app": owner}}}],
        "ttl": "240h",
    }
    return {"apiVersion": RESERVATION_API, "kind": "Reservation", "metadata": {"name": name}, "spec": spec}


def write_input(folder: Path, pods: int = 120) -> list[str]:
    """Write manifests and tables into the folder, and return the arguments of `simulate`."""
    random = Random(7)
    root = "koordinator-root-quota"
    objects = [
        quota("research", root, 160, is_parent=True),
        quota("vision", "research", 80),
        quota("speech", "research", 40),
        quota("web", root, 60),
        reservation("spare-web", "web", 8),
        reservation("spare-batch", "none", 16),
    ]
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all(objects))
    (folder / "nodes.csv").write_text(NODES)
    rows = []
    for number in range(pods):
        team = random.choice(["vision", "speech", "web"])
        gpu = "" if team == "web" else random.choice(["0.25", "0.5", "1", "2"])
        gang = f"job-{number // 8}" if team == "vision" and number % 3 else ""
        cpu, memory = random.choice([2, 4, 8]), random.choice([4, 8, 16])
        arrival, duration = round(random.uniform(0, 40) * 60), random.randrange(1, 16) * 60
        labels = f"app={team}"
        rows.append(f"p{number},{team},{arrival},{duration},{cpu},{memory}Gi,{gpu},{team},{gang},{labels}\n")
    # These never find room: in their quota, on any node, on all nodes together.
    rows += [f"waits-{number},speech,1600,,24,16Gi,4,speech,," + "\n" for number in range(6)]
    rows += [f"big-{number},web,2000,,64,16Gi,,web,," + "\n" for number in range(3)]
    rows += [f"gang-{number},vision,2200,,8,16Gi,4,vision,too-large," + "\n" for number in range(7)]
    (folder / "pods.csv").write_text(POD_COLUMNS + "".join(rows))
    tables = ["--trace", "csv", "--nodes", str(folder / "nodes.csv"), "--pods", str(folder / "pods.csv")]
    return [str(folder / "cluster.yaml"), *tables]
