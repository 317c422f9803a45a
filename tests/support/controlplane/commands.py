"""The command lines of etcd and kube-apiserver, and the files that these name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from support.controlplane.authority import Authority, service_account_key
from support.controlplane.binaries import Binaries
from support.controlplane.credentials import Identity, token_file

# ServiceAccount and TaintNodesByCondition wait for controllers (to make a pod's account, to call a node ready), and the third one for
# a controller to take its finalizers off.
ADMISSION_LEFT_OUT = "ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection"
ETCD_QUOTA_BYTES = 8 << 30  # a benchmark writes its pods many times between two compactions


class Options(NamedTuple):
    """How the API server is set up: what tests and benchmarks vary, then any flag."""

    authorization: str = "RBAC"  # or AlwaysAllow
    max_requests_inflight: int = 400  # kube-apiserver's defaults; priority and fairness shares out the sum of both
    max_mutating_requests_inflight: int = 200
    api_server_args: tuple[str, ...] = ()


class Addresses(NamedTuple):
    """Where the two listen, as URLs."""

    api_server: str
    etcd: str


def etcd_command(binaries: Binaries, folder: Path, addresses: Addresses) -> list[str]:
    return [
        str(binaries.etcd),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={addresses.etcd}",
        f"--advertise-client-urls={addresses.etcd}",
        "--listen-peer-urls=http://127.0.0.1:0",
        f"--quota-backend-bytes={ETCD_QUOTA_BYTES}",
        "--unsafe-no-fsync",  # the data need not outlive the machine
        "--log-level=warn",
    ]


def write_files(folder: Path, authority: Authority, tokens: Mapping[Identity, str]) -> None:
    """Write what the API server's flags name; the folder is readable by its owner only."""
    serving = authority.server()
    files = {
        "ca.crt": authority.certificate,
        "server.crt": serving.certificate,
        "server.key": serving.key,
        "service-account.key": service_account_key(),
        "tokens.csv": token_file(tokens).encode(),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)


def api_server_command(binaries: Binaries, folder: Path, addresses: Addresses, options: Options) -> list[str]:
    return [
        str(binaries.kube_apiserver),
        f"--etcd-servers={addresses.etcd}",
        "--bind-address=127.0.0.1",
        f"--secure-port={urlsplit(addresses.api_server).port}",
        f"--cert-dir={folder}",
        f"--tls-cert-file={folder / 'server.crt'}",
        f"--tls-private-key-file={folder / 'server.key'}",
        f"--client-ca-file={folder / 'ca.crt'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        f"--authorization-mode={options.authorization}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={folder / 'service-account.key'}",
        f"--service-account-signing-key-file={folder / 'service-account.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",  # a Service's endpoints may not be on loopback
        f"--disable-admission-plugins={ADMISSION_LEFT_OUT}",
        "--allow-privileged=true",
        "--delete-collection-workers=4",
        f"--max-requests-inflight={options.max_requests_inflight}",
        f"--max-mutating-requests-inflight={options.max_mutating_requests_inflight}",
        *options.api_server_args,
    ]
