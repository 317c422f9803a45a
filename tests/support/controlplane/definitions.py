"""Installs the project's own custom resource definitions, those that config/crds refers to, as an operator would."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from koordsched import crds
from support.controlplane.rest import Refused, Rest

FOLDER = Path(crds.FOLDER)
COLLECTION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NOT_YET = {http.client.NOT_FOUND, http.client.TOO_MANY_REQUESTS}
SERVED_SECONDS = 30.0
POLL_SECONDS = 0.05


def definitions() -> Iterator[dict[str, Any]]:
    """Yield the manifests that config/crds stands for."""
    for name in yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]:
        yield from yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))


def install(rest: Rest, manifests: Sequence[dict[str, Any]] = ()) -> None:
    """Create these definitions, or all of the project's, where they are missing; return when their objects can be listed."""
    wanted = list(manifests or definitions())
    for manifest in wanted:
        try:
            rest.create(COLLECTION, manifest)
        except Refused as refused:
            if refused.status != http.client.CONFLICT:
                raise
    for manifest in wanted:
        await_served(rest, manifest)


def await_served(rest: Rest, manifest: dict[str, Any]) -> None:
    """Wait until each version is served; AssertionError when one is not in time."""
    await_each(rest, manifest, served=True)


def await_gone(rest: Rest, manifest: dict[str, Any]) -> None:
    """Wait until no version is served any more; AssertionError when one still is."""
    await_each(rest, manifest, served=False)


def await_each(rest: Rest, manifest: dict[str, Any], *, served: bool) -> None:
    spec = manifest["spec"]
    deadline = time.monotonic() + SERVED_SECONDS
    for path in [f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}" for version in spec["versions"]]:
        while is_served(rest, path) is not served:
            assert time.monotonic() < deadline, f"{path} is {'not' if served else 'still'} served after {SERVED_SECONDS} s"
            time.sleep(POLL_SECONDS)


def is_served(rest: Rest, path: str) -> bool:
    """Return whether objects can be listed; an API server that has just started says for a moment that it is too busy for them."""
    try:
        rest.get(f"{path}?limit=1")
    except Refused as refused:
        if refused.status not in NOT_YET:
            raise
        return False
    return True
