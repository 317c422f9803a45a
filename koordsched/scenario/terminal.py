"""Results on a terminal, in colours and with what differs line under line, by rich. Imported only there, since rich is slow to import."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.text import Text

from koordsched.scenario.runner import ScenarioResult

STYLES = {"PASS": "green", "FAIL": "bold red", "SKIP": "yellow", "UPDATE": "cyan"}


def show(result: ScenarioResult, out: TextIO) -> None:
    """Print a result."""
    console = Console(file=out, soft_wrap=True, highlight=False)
    line = f"FAIL {result.name}: {result.where}" if result.differences else result.line
    word, _, rest = line.partition(" ")
    console.print(Text.assemble((word, STYLES[word]), " ", rest))
    for difference in result.differences:
        console.print(Text(f"  {difference.subject or 'cluster'}"))
        console.print(Text.assemble("    expected  ", (difference.expected, "green")))
        console.print(Text.assemble("    seen      ", (difference.seen, "red")))
