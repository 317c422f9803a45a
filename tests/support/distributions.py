"""Plugins of users: distributions that a serving process finds because their folder is on its path."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def with_plugin(folder: Path, name: str, source: str) -> Mapping[str, str]:
    """Write a distribution whose one module has the class that is the plugin; return the environment in which it is found."""
    module = name.lower()
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[koordsched.plugins]\n{name} = {module}:{name}\n")
    (folder / f"{module}.py").write_text(source)
    return {**os.environ, "PYTHONPATH": str(folder)}
