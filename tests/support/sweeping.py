"""A small sweep: two configurations on one input whose outcome they, and chance, decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from koordsched.cli import main

POINTS = {
    "queueSort": "PrioritySort",
    "preFilter": "NodeResourcesFit",
    "filter": "NodeResourcesFit",
    "score": "NodeResourcesFit",
    "bind": "DefaultBinder",
}


def configuration(strategy: str) -> dict[str, Any]:
    """Return a configuration that has one scorer, NodeResourcesFit, and looks at CPUs only."""
    fit = {"scoringStrategy": {"type": strategy, "resources": [{"name": "cpu", "weight": 1}]}}
    points = {point: {"enabled": [{"name": name}]} for point, name in POINTS.items()}
    profile = {
        "schedulerName": "koord-scheduler",
        "plugins": {"multiPoint": {"disabled": [{"name": "*"}]}, **points},
        "pluginConfig": [{"name": "NodeResourcesFit", "args": fit}],
    }
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


def objects(nodes: int = 4, pods: int = 12) -> list[dict[str, Any]]:
    """Return nodes of 4 CPUs, and pods that ask for 1, 2 and 3 of them in turn."""
    made: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{number}"},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        }
        for number in range(nodes)
    ]
    for number in range(pods):
        container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": str(1 + number % 3)}}}
        made.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": {"containers": [container]}})
    return made


class SweepFiles:
    """The files of a sweep in a folder of a test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, strategy in {"spread": "LeastAllocated", "pack": "MostAllocated"}.items():
            self.write(f"{name}.yaml", configuration(strategy))
        self.write("cluster.yaml", *objects())

    def write(self, name: str, *documents: Any) -> str:
        path = self.folder / name
        path.write_text(yaml.safe_dump_all(documents, sort_keys=False))
        return str(path)

    def sweep(self, **fields: Any) -> str:
        """Write the sweep's file, with other fields where they are given, and return its path."""
        small = {
            "configurations": {"spread": "spread.yaml", "pack": "pack.yaml"},
            "inputs": {"shuffled": {"files": ["cluster.yaml"], "order": "random"}},
            "seeds": 4,
        }
        return self.write("sweep.yaml", {**small, **fields})

    def run(self, results: str, *flags: str, **fields: Any) -> int:
        """Run the command in this process; its results are in the folder of this name."""
        return main(["sweep", self.sweep(**fields), "--results", str(self.folder / results), *flags])

    def tables(self, results: str) -> dict[str, bytes]:
        """Return what the Parquet files hold."""
        return {path.name: path.read_bytes() for path in sorted((self.folder / results).glob("*.parquet"))}

    def runs(self, results: str) -> dict[str, tuple[int, bytes]]:
        """Return of each run that is done when its file was written, and what it holds."""
        return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in (self.folder / results / "runs").glob("*.json")}
