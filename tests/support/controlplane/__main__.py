"""`PYTHONPATH=tests python -m support.controlplane build` prints the folder of the programs; they, and Helm, are built if need be."""

from __future__ import annotations

import argparse
import os
import sys

from support.controlplane.binaries import ControlPlaneUnavailable, find_or_build
from support.go_programs import BuildFailed
from support.helm import find_or_build_helm


def main() -> int:
    parser = argparse.ArgumentParser(prog="support.controlplane", description="etcd, kube-apiserver, kube-scheduler and helm for tests")
    parser.add_argument("command", choices=["build"], help="find or build the programs and print their folder")
    parser.parse_args()

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)  # noqa: T201

    try:
        binaries = find_or_build(os.environ, say)
        find_or_build_helm(os.environ, say)
    except (BuildFailed, ControlPlaneUnavailable) as error:
        print(f"no control plane: {error}", file=sys.stderr)  # noqa: T201
        return 1
    print(binaries.folder)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
