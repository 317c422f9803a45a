"""The API server of the cluster whose pod we run in: environment variables and the mounted service account."""

from __future__ import annotations

import os
from pathlib import Path

from koordsched.cluster.apiserver.credentials import TokenFile
from koordsched.cluster.apiserver.settings import ConnectError
from koordsched.cluster.apiserver.target import Pem, Target, TlsSettings


def in_cluster_target(service_account: str) -> Target:
    """Return the target. ConnectError: we are in no pod, or its service account is not mounted."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConnectError(
            "no cluster: neither a kubeconfig (clientConnection.kubeconfig, --kubeconfig) nor --master is given, and this is no pod of one "
            "(KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set)"
        )
    folder = Path(service_account)
    authority = folder / "ca.crt"
    if not authority.is_file():
        raise ConnectError(f"in-cluster: {authority} is missing; is automountServiceAccountToken false?")
    return Target(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        credentials=TokenFile("in-cluster", str(folder / "token")),
        tls=TlsSettings(authority=Pem("in-cluster", str(authority))),
    )
