"""Finds the programs of a control plane, or builds them once.

In this order: the folder in KUBEBUILDER_ASSETS (envtest's convention), this project's cache folder, a build with Go into that cache. The
name of the cache's folder is a hash of all that decides what is built, so that a changed go.mod builds anew and a finished folder is never
written again. Two test processes may ask at the same time: one builds, the other waits for it. Go fetches modules as the machine
has it configured.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

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
    folder = cache_folder(environ)
    if missing_from(folder, PACKAGES):
        build_once(folder, environ, say)
    return Binaries(folder)


def given(folder: Path) -> Binaries:
    """Take the folder of the environment; what it lacks is not looked for elsewhere, since versions would mix."""
    if missing := missing_from(folder, REQUIRED):
        raise ControlPlaneUnavailable(f"KUBEBUILDER_ASSETS={folder} has no {missing}")
    return Binaries(folder)


def missing_from(folder: Path, names: tuple[str, ...] | Mapping[str, str]) -> str:
    return ", ".join(name for name in names if not os.access(folder / name, os.X_OK))


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return where this go.mod's programs are or will be. Go's version is no part of it, so that a machine without Go can use the cache."""
    cache = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home(), ".cache")
    digest = hashlib.sha256(repr((PACKAGES, build_flags())).encode())
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    return Path(cache, "koordsched", "control-plane", digest.hexdigest()[:16], "bin")


def build_once(folder: Path, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Fill the folder unless another process does so first; it appears complete or not at all."""
    go = shutil.which("go", path=environ.get("PATH"))
    if go is None:
        raise ControlPlaneUnavailable("needs etcd and kube-apiserver: set KUBEBUILDER_ASSETS to their folder, or install Go to build them")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_name("lock")):
            if missing_from(folder, PACKAGES):
                build(go, folder, environ, say)
    except OSError as error:
        raise ControlPlaneUnavailable(f"cannot build into {folder}: {error}") from error


def build(go: str, folder: Path, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Compile every program beside the folder and put them there with one rename; the caller holds the lock."""
    say(f"Building {', '.join(PACKAGES)} with Go, once, into {folder} (10 minutes or so)")
    made = folder.with_name("building")
    try:
        for program, package in PACKAGES.items():
            say(f"Building {program}")
            compile_program([go, "build", *build_flags(), "-o", str(made / program), package], environ)
        shutil.rmtree(folder, ignore_errors=True)  # what is there lacks a program
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def compile_program(command: list[str], environ: Mapping[str, str]) -> None:
    """Run one `go build`; ControlPlaneUnavailable with its last line when it fails."""
    settings = {"CGO_ENABLED": "0", "GOWORK": "off"}
    done = subprocess.run(
        command, check=False, cwd=MODULE, env={**environ, **settings}, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise ControlPlaneUnavailable(f"go build {command[-1]} failed: {lines[-1] if lines else f'exit code {done.returncode}'}")


def build_flags() -> list[str]:
    """Return the flags of `go build`. Kubernetes' programs learn their version from the linker, and /version would say v0.0.0 without."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)", (MODULE / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise ControlPlaneUnavailable(f"{MODULE / 'go.mod'} does not require k8s.io/kubernetes")
    variables = {"gitVersion": found[1], "gitMajor": found[2], "gitMinor": found[3], "gitTreeState": "clean"}
    linked = " ".join(f"-X {VERSION_VARIABLES}.{name}={value}" for name, value in variables.items())
    return ["-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", f"-s -w {linked}"]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file's lock, which the kernel gives back when the process dies."""
    with path.open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
