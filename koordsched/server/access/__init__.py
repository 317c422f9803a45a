"""Who may ask what on the secure port, as kube-scheduler's delegated authentication and authorisation have it (framework.md §1.6).

- `gate.py`             one request: who asks, whether he may, and what a refused one is told
- `users.py`            who somebody is
- `authentication.py`   front proxies, client certificates, bearer tokens, nobody in particular: in this order
- `certificates.py`     whether a shown certificate is one of an authority's, and whose it is; `front_proxy.py` whom its headers name
- `tokens.py`           TokenReviews, remembered; `authorization.py` groups, open paths and SubjectAccessReviews, remembered
- `reviews.py`          asking the API server; `memory.py` what remembers
- `authorities.py`      the CAs: of files and of the cluster's ConfigMap, followed when they change
- `delegation.py`       all of it, made from the flags

Only what is exported here is for others.
"""

from koordsched.server.access.delegation import Delegation, World
from koordsched.server.access.gate import Gate

__all__ = ["Delegation", "Gate", "World"]
