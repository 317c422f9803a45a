"""Where Koordinator's own scheduler is, which is not built here: the folder KOORDINATOR_ASSETS holds it.

`git clone --branch v1.8.0 https://github.com/koordinator-sh/koordinator` and `go build -o FOLDER/koord-scheduler ./cmd/koord-scheduler` in
it make one, in five to fifteen minutes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.controlplane.binaries import ControlPlaneUnavailable
from support.controlplane.credentials import ADMIN
from support.differential.choosing import Json
from support.differential.reference import Program

NAME = "koord-scheduler"
VARIABLE = "KOORDINATOR_ASSETS"


def executable(environ: Mapping[str, str]) -> Path:
    """Return the program. ControlPlaneUnavailable: the variable is not set, or its folder has none."""
    if not (folder := environ.get(VARIABLE)):
        raise ControlPlaneUnavailable(f"set {VARIABLE} to the folder that holds {NAME} v1.8.0")
    path = Path(folder, NAME)
    if not os.access(path, os.X_OK):
        raise ControlPlaneUnavailable(f"{VARIABLE}={folder} has no {NAME}")
    return path


def koord_scheduler(path: Path, config: Json, flags: Sequence[str] = ()) -> Program:
    """Return it with this configuration and these flags, as a user who may do everything: what it may is not what is compared."""
    return Program(NAME, path, config, ADMIN, "/healthz", flags)
