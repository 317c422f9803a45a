"""Helm, which renders the chart for tests; built once with Go (`support.go_programs`)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from support.go_programs import GoPrograms

MODULE = Path(__file__).parent
PROGRAMS = GoPrograms(
    "helm", MODULE, {"helm": "helm.sh/helm/v3/cmd/helm"}, ["-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w"]
)
CHART = Path(__file__).parents[3] / "config" / "chart"
KUBE_VERSION = "1.35.1"


class ChartError(Exception):
    """Helm refuses the chart or the values; the text is its own."""


class Helm(NamedTuple):
    """The program."""

    path: Path

    def template(self, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the objects that the chart makes of these values. ChartError: helm refuses them."""
        text = self._run("template", "koordsched", str(CHART), "--kube-version", KUBE_VERSION, "--values", "-", given=json.dumps(values))
        return [document for document in yaml.safe_load_all(text) if document]

    def lint(self) -> str:
        """Let helm look at the chart, and return what it says. ChartError: it finds a mistake or a doubt."""
        return self._run("lint", "--strict", str(CHART))

    def _run(self, *arguments: str, given: str = "") -> str:
        done = subprocess.run([self.path, *arguments], check=False, input=given, capture_output=True, text=True, env=dict(os.environ))
        if done.returncode != 0:
            raise ChartError(done.stderr + done.stdout)
        return done.stdout


def find_or_build_helm(environ: Mapping[str, str], say: Callable[[str], None]) -> Helm:
    """Return it, built if need be. BuildFailed: it cannot be had."""
    return Helm(PROGRAMS.build_once(environ, say) / "helm")
