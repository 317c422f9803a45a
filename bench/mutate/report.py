"""What became of each mutant: kept between runs, and the table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Self

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mutate.sampling import Mutant

EQUIVALENT = Path(__file__).with_name("equivalent.yaml")


class Verdict(msgspec.Struct, frozen=True):
    """How a mutant ended: "killed" (by which test), "survived" or "unreached" by any test. state: digest of sources and tests."""

    key: str
    place: str
    difference: list[str]
    outcome: str
    killer: str = ""
    state: str = ""

    @classmethod
    def of(cls, mutant: Mutant, outcome: str, killer: str = "") -> Self:
        return cls(mutant.key, mutant.place, mutant.difference, outcome, killer)


class Equivalent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mutant that no test can distinguish from the original."""

    mutant: str
    change: list[str]
    why: str


class Verdicts:
    """The verdicts of all runs, one line each in a file; a verdict stands while sources and tests are as they were."""

    def __init__(self, file: Path, state: str) -> None:
        self._file = file
        self._state = state
        self._found: dict[str, Verdict] = {}
        if file.exists():
            for line in file.read_bytes().splitlines():
                verdict = msgspec.json.decode(line, type=Verdict)
                self._found[verdict.key] = verdict
        self.equivalent = {entry.mutant: entry for entry in msgspec.yaml.decode(EQUIVALENT.read_bytes(), type=list[Equivalent])}

    def stands(self, mutant: Mutant) -> bool:
        found = self._found.get(mutant.key)
        return mutant.key in self.equivalent or (found is not None and found.state == self._state)

    def killer(self, mutant: Mutant) -> str:
        found = self._found.get(mutant.key)
        return found.killer if found else ""

    def add(self, verdict: Verdict) -> None:
        verdict = msgspec.structs.replace(verdict, state=self._state)
        self._found[verdict.key] = verdict
        with self._file.open("ab") as out:
            out.write(msgspec.json.encode(verdict) + b"\n")
        print(f"{verdict.outcome:9} {verdict.place}  {'  '.join(verdict.difference)}  {verdict.killer}", flush=True)

    def show(self, mutants: list[Mutant], console: Console, every: bool) -> float:
        """Print the mutants that live (or every one) and the share that died; return it, 0 to 1. Equivalent ones do not count."""
        table = Table("mutant", "change", "killed by", title="all mutants" if every else "mutants that live", title_justify="left")
        outcomes: Counter[str] = Counter()
        by_folder: dict[str, Counter[str]] = {}
        for mutant in sorted(mutants, key=lambda mutant: (mutant.path, mutant.lines.start)):
            known = self.equivalent.get(mutant.key)
            verdict = self._found.get(mutant.key)
            outcome = "equivalent" if known else verdict.outcome if verdict else "not judged"
            outcomes[outcome] += 1
            by_folder.setdefault(mutant.path.rpartition("/")[0], Counter())[outcome] += 1
            if every or outcome not in {"killed", "equivalent"}:
                how = known.why if known else verdict.killer or outcome if verdict else outcome
                table.add_row(f"{mutant.place}\n{mutant.key.rpartition(':')[2]}", escape("\n".join(mutant.difference)), escape(how))
        if table.row_count:
            console.print(table)
        folders = Table("folder", "killed", "live", "equivalent")
        for folder, counts in by_folder.items():
            live = counts.total() - counts["killed"] - counts["equivalent"]
            folders.add_row(folder, str(counts["killed"]), str(live), str(counts["equivalent"]))
        console.print(folders)
        judged = outcomes.total() - outcomes["equivalent"]
        share = outcomes["killed"] / judged if judged else 1.0
        console.print(f"{outcomes['killed']} of {judged} mutants died: {share:.1%} ({outcomes['equivalent']} equivalent)")
        return share
