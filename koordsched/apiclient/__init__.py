"""What asks an API server and is not the serving process, over kubernetes-asyncio (docs/decisions/0010-libraries.md).

- `client.py`     one request of one user, JSON in and out
- `sending.py`    the same with the port's errors; a busy API server is asked again
- `snapshot.py`   what a cluster has now, for `simulate` and `explain`: reads, page by page, and never writes
"""
