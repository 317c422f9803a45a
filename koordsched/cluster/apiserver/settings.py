"""The operator's settings of the connection to an API server, and the error for settings that cannot work."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import msgspec

from koordsched import __version__

USER_AGENT = f"koord-scheduler/v{__version__} ({sys.platform}/{os.uname().machine})"
"""As client-go's programs have it; the API server takes what stands before the slash for the manager of the fields that are written."""
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class ConnectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the cluster is, and the limits of requests to it. Times are seconds.

    `kubeconfig` "" means in-cluster, `master` is an address over the kubeconfig's and, alone, an address without credentials: as client-go
    has it for kube-scheduler. JSON is always spoken, whatever clientConnection.contentType says.
    """

    kubeconfig: str = ""
    master: str = ""
    qps: float = 50.0  # below 0: no limit; 0: the default
    burst: int = 100  # 0: the default
    user_agent: str = USER_AGENT
    connect_timeout: float = 10.0
    request_timeout: float = 30.0  # of everything but lists and watches
    list_timeout: float = 120.0  # of one page or of a streaming list
    watch_seconds: tuple[float, float] = (300.0, 600.0)  # a watch is asked to last a random time in this range
    max_silence: float = 180.0  # three of the API server's bookmarks
    connections: int = 64  # at once, for each purpose but watches, which have as many as there are watches
    max_answer: int = 128 * 2**20  # bytes of one answer, and of one event of a watch: a page of 500 nodes with 250 kB each
    streaming_lists: bool = False  # spares the server memory, and costs it two to three times the CPU
    service_account: str = SERVICE_ACCOUNT  # the folder with token and ca.crt of a pod
    may_decide: Callable[[], None] | None = None  # asked right before a decision is sent; raises NotLeading if it must not be


class ConnectError(Exception):
    """The operator's settings do not lead to an API server. The text is one line that names what to look at."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))
