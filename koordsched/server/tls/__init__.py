"""The secure port's TLS, as kube-scheduler's secure serving has it (framework.md §1.6).

- `pairs.py`     certificates and keys: of flags, of a folder, made in memory
- `rules.py`     versions and cipher suites by the flags' names
- `serving.py`   which certificate is shown: the default one, those of --tls-sni-cert-key; files are read again when they change
- `protocol.py`  pyOpenSSL between a socket and the protocol that speaks HTTP

Python's own `ssl` cannot ask for a client certificate without verifying it in the handshake, which would end the connection where
kube-scheduler answers 401; pyOpenSSL can.
"""

from koordsched.server.tls.pairs import CertKey, self_signed
from koordsched.server.tls.protocol import PEER_CHAIN, TlsProtocol
from koordsched.server.tls.serving import ServingCertificates

__all__ = ["PEER_CHAIN", "CertKey", "ServingCertificates", "TlsProtocol", "self_signed"]
