"""A credential plugin for kubeconfig's `exec` whose credentials live for seconds. A program of its own: it imports nothing of ours.

    credential_plugin.py CALLS token SECONDS [expiry]    a token that says until when it is good; "expiry": the plugin says so, too
    credential_plugin.py CALLS certificates FOLDER       the first of the pairs EXPIRY.crt, EXPIRY.key that is good for another two seconds

Each call adds a line to the file CALLS.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

TOKEN = "good-until-"
MARGIN_SECONDS = 2.0


def token(seconds: str, *expiry: str) -> dict[str, str]:
    expires = time.time() + float(seconds)
    return {"token": f"{TOKEN}{expires}", **({"expirationTimestamp": written(expires)} if expiry else {})}


def certificate(folder: str) -> dict[str, str]:
    needed = time.time() + MARGIN_SECONDS
    expiry = min(expiry for path in Path(folder).glob("*.crt") if (expiry := int(path.stem)) >= needed)
    pair = {name: Path(folder, f"{expiry}.{end}").read_text() for name, end in (("clientCertificateData", "crt"), ("clientKeyData", "key"))}
    return {**pair, "expirationTimestamp": written(expiry)}


def written(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def main(calls: str, sort: str, *arguments: str) -> None:
    with Path(calls).open("a") as file:
        file.write(f"{time.time()}\n")
    status = token(*arguments) if sort == "token" else certificate(*arguments)
    json.dump({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
