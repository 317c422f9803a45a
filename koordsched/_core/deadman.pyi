"""A dead man's switch: the operating system ends the process at a given time unless a later one is set before. One a process, Linux only.

It also works when no code of this process runs any more: when the process was stopped, or hangs in native code.
"""

def make(thread: int) -> None:
    """Make the switch. thread: the native id of the thread that must not continue. OSError: this system has no such timers."""

def arm(at: float, text: bytes) -> None:
    """Let the process end with exit code 1 at this reading of CLOCK_BOOTTIME, in seconds.

    The text, of which 1024 bytes are kept, is then written to stderr, if that is possible without waiting. Replaces the time and text of an
    earlier call in one step. No effect before `make`. ValueError for a time that is not positive, OSError if the timer cannot be set.
    """

def disarm() -> None:
    """Stop the timer: the process is not ended."""
