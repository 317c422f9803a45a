"""Manifests for tests: JSON objects as a user would send them to an API server."""

from __future__ import annotations

from typing import Any


def pod_manifest(name: str = "p", *, namespace: str = "default", status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Make a pod with one container, `main`; keywords are fields of its spec."""
    manifest = {"metadata": {"name": name, "namespace": namespace}, "spec": {"containers": [{"name": "main"}], **spec}}
    return manifest if status is None else {**manifest, "status": status}
