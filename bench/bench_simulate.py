"""How long does a whole `koord-scheduler simulate` of openb's default pods take, all submitted at once? Limit: 3 s wall."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

OPENB = Path(os.environ.get("OPENB", "../shared/data/openb"))


def bench_simulate_openb_default(benchmark: Any) -> None:
    if not OPENB.is_dir():
        pytest.skip(f"the trace is not at {OPENB}: set OPENB to the folder that holds it")
    nodes, pods = OPENB / "openb_node_list_all_node.csv", OPENB / "openb_pod_list_default.csv"
    command = [sys.executable, "-m", "koordsched", "simulate", "--trace", "openb", "--nodes", str(nodes), "--pods", str(pods)]
    benchmark.pedantic(
        lambda: subprocess.run([*command, "--order", "arrival", "-o", "json"], check=True, capture_output=True), rounds=3, warmup_rounds=1
    )
