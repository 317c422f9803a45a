"""The table of bad input names every annotation and label that the sources know."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

from support.bad_input import KEYS

PACKAGE = Path(__file__).parents[2] / "koordsched"
KEY = re.compile(r"(?:[a-z-]+\.)*(?:koordinator\.sh|scheduling\.sigs\.k8s\.io)/[A-Za-z0-9._-]+|pod-group\.scheduling\.sigs\.k8s\.io")
OTHERS = {
    # resources, not keys
    "koordinator.sh/gpu",
    "koordinator.sh/gpu.shared",
    "koordinator.sh/gpu-core",
    "koordinator.sh/gpu-memory",
    "koordinator.sh/gpu-memory-ratio",
    "koordinator.sh/rdma",
    "koordinator.sh/fpga",
    "koordinator.sh/batch-cpu",
    "koordinator.sh/batch-memory",
    # of ElasticQuotaProfiles and webhooks, which the scheduler does not read: `koord-scheduler validate` does
    "quota.scheduling.koordinator.sh/resource-keys",
}
PREFIXES = ("api/koordinator", "scheduler/transformers", "plugins/reservation", "plugins/deviceshare", "plugins/coscheduling")


def constants() -> dict[str, str]:
    """Return the keys that constants of modules are, each with the module."""
    found: dict[str, str] = {}
    for place in PREFIXES:
        for path in sorted((PACKAGE / place).rglob("*.py")):
            name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
            module = importlib.import_module(name)
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    value = getattr(module, node.targets[0].id)
                    for text in (
                        [value] if isinstance(value, str) else value if isinstance(value, list | tuple | set | frozenset | dict) else ()
                    ):
                        if isinstance(text, str) and KEY.fullmatch(text) and not text.endswith(("/v1alpha1", "/v1")):
                            found.setdefault(text, name)
    return found


def test_every_key_of_the_sources_is_in_the_table() -> None:
    known = {key.key for key in KEYS} | OTHERS
    found = constants()
    assert len(found) > 70
    assert {key: module for key, module in found.items() if key not in known} == {}


def test_keys_that_nothing_is_said_of_have_a_reason() -> None:
    assert all(key.silent == "" or len(key.silent.split()) > 3 for key in KEYS)
    assert sum(not key.silent for key in KEYS) > 30
