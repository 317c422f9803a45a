"""Programs that tests use and Go builds: once, into the user's cache.

The name of the cache's folder is a hash of all that decides what is built, so that a changed go.mod builds anew and a finished folder is
never written again. Two test processes may ask at the same time: one builds, the other waits for it. Go fetches modules as the machine
has it configured.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

BUILDING = "building"


class BuildFailed(Exception):
    """The programs cannot be built here; the text is one line for a person."""


class NoGo(BuildFailed):
    """There is no Go."""


class GoPrograms(NamedTuple):
    """Programs of one Go module. packages: by the programs' names; flags: of `go build`; name: of their part of the cache."""

    name: str
    module: Path
    packages: Mapping[str, str]
    flags: Sequence[str]

    def folder(self, environ: Mapping[str, str]) -> Path:
        """Return where they are or will be. Go's version is no part of it, so that a machine without Go can use the cache."""
        cache = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home(), ".cache")
        digest = hashlib.sha256(repr((dict(self.packages), list(self.flags))).encode())
        for name in ("go.mod", "go.sum"):
            digest.update((self.module / name).read_bytes())
        return Path(cache, "koordsched", self.name, digest.hexdigest()[:16], "bin")

    def build_once(self, environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
        """Return the folder, filled unless that is done already, or another process does so first; it appears complete or not at all.

        `say` gets a line for each step, which may take minutes. BuildFailed: it cannot be had.
        """
        folder = self.folder(environ)
        if not missing_from(folder, self.packages):
            return folder
        go = shutil.which("go", path=environ.get("PATH"))
        if go is None:
            raise NoGo(f"install Go to build {', '.join(self.packages)}")
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _locked(folder.with_name("lock")):
                if missing_from(folder, self.packages):
                    self._build(go, folder, environ, say)
        except OSError as error:
            raise BuildFailed(f"cannot build into {folder}: {error}") from error
        return folder

    def _build(self, go: str, folder: Path, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
        """Compile every program beside the folder and put them there with one rename; the caller holds the lock."""
        say(f"Building {', '.join(self.packages)} with Go, once, into {folder} (10 minutes or so)")
        made = folder.with_name(BUILDING)
        try:
            for program, package in self.packages.items():
                say(f"Building {program}")
                self._compile([go, "build", *self.flags, "-o", str(made / program), package], environ)
            shutil.rmtree(folder, ignore_errors=True)  # what is there lacks a program
            made.rename(folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def _compile(self, command: list[str], environ: Mapping[str, str]) -> None:
        """Run one `go build`; BuildFailed with its last line when it fails."""
        settings = {"CGO_ENABLED": "0", "GOWORK": "off"}
        done = subprocess.run(
            command, check=False, cwd=self.module, env={**environ, **settings}, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            raise BuildFailed(f"go build {command[-1]} failed: {lines[-1] if lines else f'exit code {done.returncode}'}")


def missing_from(folder: Path, names: Iterable[str]) -> str:
    """Name what the folder lacks of these programs."""
    return ", ".join(name for name in names if not os.access(folder / name, os.X_OK))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the file's lock, which the kernel gives back when the process dies."""
    with path.open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
