"""Finds the programs of a control plane, or builds them once.

In this order: the folder in KUBEBUILDER_ASSETS (envtest's convention), this project's cache folder, a build with Go into that cache
(`support.go_programs`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from support.go_programs import BuildFailed, GoPrograms, NoGo, missing_from

MODULE = Path(__file__).parent / "go"
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
REQUIRED = ("etcd", "kube-apiserver")
VERSION_VARIABLES = "k8s.io/component-base/version"


class ControlPlaneUnavailable(Exception):
    """There is no control plane to be had here; the text is one line for a person."""


class Binaries(NamedTuple):
    """A folder that holds at least etcd and kube-apiserver."""

    folder: Path

    @property
    def etcd(self) -> Path:
        return self.folder / "etcd"

    @property
    def kube_apiserver(self) -> Path:
        return self.folder / "kube-apiserver"

    @property
    def kube_scheduler(self) -> Path:
        """Return the scheduler to compare with; ControlPlaneUnavailable when the folder has none, as envtest's do."""
        if missing := missing_from(self.folder, ("kube-scheduler",)):
            raise ControlPlaneUnavailable(f"{self.folder} has no {missing}: unset KUBEBUILDER_ASSETS to build it")
        return self.folder / "kube-scheduler"


def find_or_build(environ: Mapping[str, str], say: Callable[[str], None]) -> Binaries:
    """Return the programs, built if need be; `say` gets a line for each step of a build, which takes minutes."""
    if assets := environ.get("KUBEBUILDER_ASSETS"):
        return given(Path(assets))
    try:
        return Binaries(programs().build_once(environ, say))
    except NoGo:
        hint = "set KUBEBUILDER_ASSETS to their folder, or install Go to build them"
        raise ControlPlaneUnavailable(f"needs etcd and kube-apiserver: {hint}") from None
    except BuildFailed as failure:
        raise ControlPlaneUnavailable(str(failure)) from failure


def given(folder: Path) -> Binaries:
    """Take the folder of the environment; what it lacks is not looked for elsewhere, since versions would mix."""
    if missing := missing_from(folder, REQUIRED):
        raise ControlPlaneUnavailable(f"KUBEBUILDER_ASSETS={folder} has no {missing}")
    return Binaries(folder)


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return where this go.mod's programs are or will be."""
    return programs().folder(environ)


def programs() -> GoPrograms:
    """Return what is built, with the flags. Kubernetes' programs learn their version from the linker; /version would say v0.0.0 without."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)", (MODULE / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise ControlPlaneUnavailable(f"{MODULE / 'go.mod'} does not require k8s.io/kubernetes")
    variables = {"gitVersion": found[1], "gitMajor": found[2], "gitMinor": found[3], "gitTreeState": "clean"}
    linked = " ".join(f"-X {VERSION_VARIABLES}.{name}={value}" for name, value in variables.items())
    flags = ["-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", f"-s -w {linked}"]
    return GoPrograms("control-plane", MODULE, PACKAGES, flags)
