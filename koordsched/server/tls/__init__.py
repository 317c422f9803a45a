"""The secure port's TLS, as kube-scheduler's secure serving has it (framework.md §1.6).

- `pairs.py`     certificates and keys: of flags, of a folder, made in memory
- `rules.py`     versions and cipher suites by the flags' names
- `serving.py`   what is shown to whom: the default certificate, those of --tls-sni-cert-key; files are read again when they change
- `bridge.py`    pyOpenSSL behind the interface that event loops expect of `ssl`

Python's own `ssl` cannot ask for a client certificate without verifying it in the handshake, which would end the connection where
kube-scheduler answers 401; pyOpenSSL can.
"""

from koordsched.server.tls.bridge import peer_chain
from koordsched.server.tls.pairs import CertKey, self_signed
from koordsched.server.tls.serving import ServingCertificates

__all__ = ["CertKey", "ServingCertificates", "peer_chain", "self_signed"]
