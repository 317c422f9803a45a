"""Which requests may pass on the secure port, by kube-scheduler's delegated authentication and authorisation (framework.md §1.6).

- `authentication.py`   the user of a request: by front proxy, client certificate, bearer token (TokenReviews, kept), else anonymous
- `identities.py`       users, and what certificates and a proxy's headers say of them
- `authorization.py`    what a user may do: groups, open paths, SubjectAccessReviews (kept); and what a refused request is answered
- `reviews.py`          reviews of the API server
- `authorities.py`      the CAs: of files and of the cluster's ConfigMap, followed when they change
- `delegation.py`       all of it, made from the flags

Only what is exported here is for others.
"""

from koordsched.server.access.authorization import AccessFilter
from koordsched.server.access.delegation import ApiConnector, Delegation

__all__ = ["AccessFilter", "ApiConnector", "Delegation"]
