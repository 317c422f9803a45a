"""One etcd and one kube-apiserver on loopback, with everything they need in a temporary folder.

The API server speaks TLS with a certificate of its own authority, knows a few users by static tokens and any by client certificate, and
decides by RBAC. It keeps its port and its data when it is stopped and started again. After `close` no process, port or file is left, and
neither after the death of the test process (`guardian.py`).
"""

from __future__ import annotations

import http.client
import os
import secrets
import shutil
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from koordsched.scenario.live.process import free_port
from support.controlplane.authority import Authority
from support.controlplane.binaries import Binaries
from support.controlplane.cleaning import NAMESPACES, clean
from support.controlplane.commands import Addresses, Options, api_server_command, etcd_command, write_files
from support.controlplane.credentials import ADMIN, IDENTITIES, Identity, Kubeconfig, User, by_token
from support.controlplane.definitions import install
from support.controlplane.processes import Guardian, Launch, Process, Usage
from support.controlplane.rest import Refused, Rest

ETCD = "etcd"
API_SERVER = "kube-apiserver"
START_SECONDS = 90.0
STOP_SECONDS = 20.0


class ControlPlane:
    """A running control plane: a context manager that starts it and ends it."""

    def __init__(self, binaries: Binaries, options: Options | None = None) -> None:
        self.binaries = binaries
        self.options = options or Options()
        self.authority = Authority()
        self.tokens: Mapping[Identity, str] = {identity: secrets.token_urlsafe(16) for identity in IDENTITIES}
        self.folder = Path(tempfile.gettempdir())
        self._addresses = Addresses("", "")
        self._guardian: Guardian | None = None
        self._processes: dict[str, Process] = {}
        self._clients: list[Rest] = []
        self._undo = ExitStack()

    @property
    def url(self) -> str:
        """The API server's address, which stays the same over its restarts."""
        return self._addresses.api_server

    def __enter__(self) -> Self:
        """Start etcd, then the API server; StartFailed with the end of the log when one does not get ready."""
        with ExitStack() as undo:
            self.folder = Path(tempfile.mkdtemp(prefix="koordsched-control-plane-"))
            self._guardian = Guardian(self.folder)
            undo.callback(self._guardian.release)
            undo.callback(shutil.rmtree, self.folder, ignore_errors=True)
            undo.callback(self._end_everything)
            self._addresses = Addresses(f"https://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}")
            write_files(self.folder, self.authority, self.tokens)
            self.spawn(ETCD, etcd_command(self.binaries, self.folder, self._addresses)).wait_until(self._etcd_ready, START_SECONDS)
            self.start_api_server()
            self._undo = undo.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Kill every process and remove the folder: no data outlives this, so nothing is asked to end politely."""
        self._undo.close()

    def start_api_server(self) -> None:
        """Start the API server on its port and its data, and wait until it is ready and serves what config/crds defines."""
        command = api_server_command(self.binaries, self.folder, self._addresses, self.options)
        process = self.spawn(API_SERVER, command)
        with closing(self._client(ADMIN)) as client:
            process.wait_until(lambda: api_server_ready(client), START_SECONDS)
            install(client)

    def stop_api_server(self) -> None:
        """Let the API server finish its requests and end."""
        self._api_server_gone()
        self._processes[API_SERVER].stop(STOP_SECONDS)

    def kill_api_server(self) -> None:
        """End the API server as a crash would."""
        self._api_server_gone()
        self._processes[API_SERVER].kill()

    def spawn(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> Process:
        """Start a program that ends with the control plane, such as a scheduler; its output goes to `{name}.log` in the folder."""
        if (earlier := self._processes.get(name)) is not None and earlier.running:
            raise ValueError(f"{name} is running already")
        assert self._guardian is not None, "the control plane is not running"
        environment = os.environ if environment is None else environment
        process = Process(Launch(name, command, self.folder / f"{name}.log", self._guardian.group, environment))
        self._processes[name] = process
        return process

    def process(self, name: str) -> Process:
        """Return the program last started under this name."""
        return self._processes[name]

    def rest(self, identity: Identity = ADMIN) -> Rest:
        """Return a client of its own; it is closed with the control plane, and works on after a restart of the API server."""
        client = self._client(identity)
        self._clients.append(client)
        return client

    def kubeconfig(self, user: User | None = None) -> Kubeconfig:
        """Return a kubeconfig for this user, or for the admin."""
        return Kubeconfig(self.url, self.authority.certificate, by_token(self.tokens[ADMIN]) if user is None else user)

    def usage(self) -> dict[str, Usage]:
        """Return what each running program has used since it started, by name."""
        return {name: process.usage() for name, process in self._processes.items() if process.running}

    def logs(self, lines: int) -> dict[str, str]:
        """Return the last lines of what was started with `spawn`, by name, running or not."""
        return {name: self._processes[name].log_tail(lines) for name in self._processes.keys() - {ETCD, API_SERVER}}

    def end_programs(self) -> None:
        """Kill what was started with `spawn`."""
        for name in self._processes.keys() - {ETCD, API_SERVER}:
            self._processes.pop(name).kill()

    def restore(self) -> None:
        """Make it as it was at the start: end other programs, start the API server if a test has left it down, delete all objects."""
        self.end_programs()
        if not self._processes[API_SERVER].running:
            self.start_api_server()
        with closing(self._client(ADMIN)) as client:
            clean(client)

    def _client(self, identity: Identity) -> Rest:
        return Rest(self.kubeconfig(by_token(self.tokens[identity])))

    def _api_server_gone(self) -> None:
        for client in self._clients:
            client.close()  # a kept connection would fail the first request after the restart

    def _end_everything(self) -> None:
        self._api_server_gone()
        for process in self._processes.values():
            process.kill()

    def _etcd_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._addresses.etcd}/health", timeout=1) as answer:
                return bool(answer.status == http.client.OK)
        except OSError:
            return False


def api_server_ready(client: Rest) -> bool:
    """Return whether it calls itself ready and has made, a moment later, the Service `kubernetes` that every client relies on."""
    try:
        client.get("/readyz")
        client.get(f"{NAMESPACES}/default/services/kubernetes")
    except (Refused, aiohttp.ClientError, OSError):
        return False
    return True
