"""A dead man's switch: the kernel ends the process at a moment unless it is told a later one. One a process, on Linux.

It also works when no line of this process's code runs any more: when it was stopped, or hangs in native code.
"""

def make(thread: int) -> None:
    """Make the switch. `thread` is the native id of the one that must not go on. OSError: this system has no such timers."""

def arm(at: float, text: bytes) -> None:
    """Let the process end with exit code 1 at this reading of CLOCK_BOOTTIME, in seconds, and say the text on stderr (1024 bytes at most)
    if it can be written at once.

    Takes the place of what was armed before, without a moment in between. No effect before `make`.
    """

def disarm() -> None:
    """Let the process live on."""
