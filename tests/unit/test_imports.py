"""What a process imports before it does anything, and what that leaves behind: time that every run of a command takes."""

from __future__ import annotations

import os
import subprocess
import sys

NEEDLESS = {
    "aiohttp",
    "cryptography",
    "difflib",
    "ipaddress",
    "pathlib",
    "prometheus_client",
    "pyarrow",
    "rich",
    "structlog",
    "urllib",
    "vl_convert",
    "yaml",
}


SLOW = NEEDLESS | {"OpenSSL", "cachetools", "httptools", "kubernetes_asyncio", "numpy", "uvloop"}
"""What takes long to import (docs/decisions/0010-libraries.md)."""


def said(code: str, **environment: str) -> str:
    """Run the code in a fresh process and return what it prints."""
    inherited = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
    environment = {**inherited, "PYTHONPATH": paths, **environment}
    return subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True).stdout.strip()


def test_numpy_starts_no_threads() -> None:
    assert said("import koordsched._core.table, os; print(len(os.listdir('/proc/self/task')))") == "1"


def test_threads_that_the_environment_asks_for_are_not_taken_away() -> None:
    assert said("import koordsched, os; print(os.environ['OPENBLAS_NUM_THREADS'])", OPENBLAS_NUM_THREADS="2") == "2"


def test_a_trace_is_simulated_without_what_only_other_commands_need() -> None:
    # What is there before is not ours: the finder of an editable installation, say, imports some of these.
    code = "import sys; before = set(sys.modules); import {}; print(*sys.modules.keys() - before)"
    imported = said(code.format("koordsched.simulate.command, koordsched.simulate.openb")).split()
    assert "koordsched.simulate.openb" in imported
    assert [name for name in imported if name in NEEDLESS or name.startswith(("koordsched.server", "koordsched.simulate.report"))] == []


def test_help_is_shown_without_anything_that_takes_long_to_import() -> None:
    show = "from koordsched.cli import main; sys.stdout = io.StringIO(); main(['--help']); sys.stdout = sys.__stdout__"
    code = f"import io, sys; before = set(sys.modules); {show}; print(*sys.modules.keys() - before)"
    imported = said(code).split()
    assert "koordsched.config.flag_help" in imported
    assert [name for name in imported if name in SLOW - {"difflib", "ipaddress"}] == []  # a flag is an address
    assert [name for name in imported if name.startswith(("koordsched._core", "koordsched.plugins", "koordsched.server"))] == []


def test_the_garbage_collector_is_back_after_the_imports_and_leaves_them_alone() -> None:
    code = "import gc; from koordsched.cli import main; main(['--version=true']); print(gc.isenabled(), gc.get_freeze_count() > 0)"
    assert said(code).splitlines()[-1] == "True True"
