"""Sections and progress on a terminal, by rich. Imported only there, since rich takes longer to import than a small simulation to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table

from koordsched.framework.tooling import Section


def show(sections: Iterable[Section], out: TextIO) -> None:
    """Print the sections as tables."""
    console = Console(file=out)
    for section in sections:
        table = Table(
            title=escape(section.title), title_justify="left", title_style="bold", header_style="dim", show_header=any(section.columns)
        )
        for column, align in zip(section.columns, section.align, strict=True):
            table.add_column(escape(column), justify="right" if align == ">" else "left", overflow="fold")
        for row in section.rows:
            table.add_row(*(escape(cell) for cell in row))
        console.print(table)
        for note in section.notes:
            console.print(note, style="dim", markup=False, highlight=False)
        console.print()


class ProgressBar:
    """A bar of what is done, on a terminal: pods that have a node, unless `counted` says what else."""

    def __init__(self, err: TextIO, counted: str = "pods bound") -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TaskProgressColumn())
        self._progress = Progress(*columns, console=Console(file=err), transient=True)
        self._task = self._progress.add_task(counted, total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._progress.stop()

    def update(self, done: int, total: int) -> None:
        """Show so many of so many."""
        self._progress.update(self._task, completed=done, total=total)


@contextmanager
def counting(err: TextIO, what: str) -> Iterator[Callable[[int], None]]:
    """Show what is done, and how many there are by now, on a terminal; the line goes when it is over."""
    with Console(file=err).status(what) as status:
        yield lambda count: status.update(f"{count:,} {what}")
