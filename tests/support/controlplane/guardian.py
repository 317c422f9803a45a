"""Run as a script beside a control plane: when the process that started it is gone, ends everything and removes the folder.

It leads the process group that every program of the control plane joins, and reads a pipe that is never written to. The read returns when
the other end is closed, and the kernel closes it however the owner dies, kill -9 included. Unlike PR_SET_PDEATHSIG this does not
depend on which thread started the program, and it needs no code between fork and exec.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys


def main(folder: str) -> None:
    sys.stdin.buffer.read()
    group = os.getpgrp()
    if os.fork():
        os.wait()  # until the child kills this process, too
    os.setpgid(0, 0)  # out of the group, to outlive it
    os.killpg(group, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
