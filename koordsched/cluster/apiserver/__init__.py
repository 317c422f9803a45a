"""A real cluster: the port's verbs on a kube-apiserver, over asyncio, aiohttp and msgspec.

- `connection.py`        settings to a connected adapter
- `adapter.py`           the verbs of the port; `calls.py` what each is on the wire, and where objects are
- `transport.py`         one request, from its turn to its status; `headers.py`; `limiter.py` qps and burst; `traffic.py` what was sent
- `http1.py`             connections for small requests; `sessions.py` aiohttp for streams and proxies; `wire.py` what can happen there
- `errors.py`            status codes and broken connections into errors of the port, in one place
- `decoding.py`          bytes into Structs; `watch.py` a watch and the streaming list, cut into lines
- `identity.py`          credentials and TLS kept fresh; `credentials.py`, `exec_plugin.py`, `oidc.py`, `tls.py` where they come from
- `kubeconfig.py`        where the API server is, and with which credentials; `target.py` for a pod of the cluster

Only what is exported here is for others.
"""

from koordsched.cluster.apiserver.adapter import ApiServer, RawRequest
from koordsched.cluster.apiserver.connection import connect
from koordsched.cluster.apiserver.errors import SentRequest, Untrusted, answer_error, transport_error
from koordsched.cluster.apiserver.settings import ConnectError, ConnectionSettings
from koordsched.cluster.apiserver.traffic import Traffic
from koordsched.cluster.apiserver.wire import TRANSPORT_ERRORS, wire_error

__all__ = [
    "TRANSPORT_ERRORS",
    "ApiServer",
    "ConnectError",
    "ConnectionSettings",
    "RawRequest",
    "SentRequest",
    "Traffic",
    "Untrusted",
    "answer_error",
    "connect",
    "transport_error",
    "wire_error",
]
