"""Mutants of source files: mutmut's operators, an identity that outlives other edits, and a seeded sample."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import NamedTuple

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, ParentNodeProvider, PositionProvider
from mutmut.mutation.file_mutation import Mutation, create_mutations

from mutate.swapping import NotExchangeable, exchanges


class Mutant:
    """One change of one file. lines: those of the changed statement, of which a test must run one to be asked."""

    def __init__(self, path: str, function: str, source: str, mutated: str, lines: range) -> None:
        self.path = path
        self.function = function
        self.source = source
        self.mutated = mutated
        self.lines = lines

    @cached_property
    def difference(self) -> list[str]:
        """The lines taken away and put in, stripped: "-old", "+new"."""
        before, after = self.source.splitlines(), self.mutated.splitlines()
        changed = [line for line in difflib.unified_diff(before, after, lineterm="", n=0) if not line.startswith(("---", "+++", "@@"))]
        return [line[0] + line[1:].strip() for line in changed]

    @cached_property
    def key(self) -> str:
        """Name the mutant by its file, function and change, not by its line number."""
        digest = hashlib.sha256("\n".join([self.path, self.function, *self.difference]).encode()).hexdigest()[:8]
        return f"{self.path}:{self.function}:{digest}"

    @property
    def place(self) -> str:
        return f"{self.path}:{self.lines.start}"


class Sample(NamedTuple):
    """`mutants` of those that mutmut offers: what it leaves out is nowhere counted as covered."""

    mutants: list[Mutant]
    offered: int  # in all files: of functions' bodies, and
    at_import: int  # of what runs while a module is imported: constants, fields of classes
    drawn: int  # until there were enough mutants; of these
    not_exchangeable: int  # are default arguments, closures over other names, and what is no program

    @property
    def out_of_reach(self) -> str:
        return (
            f"out of reach: {self.at_import} of {self.offered + self.at_import} mutants, which are run by an import (constants, fields of "
            f"classes), and {self.not_exchangeable} of {self.drawn} drawn ones (default arguments, closures over other names, no program)"
        )


def sample(paths: Sequence[str], count: int, seed: int) -> Sample:
    """Choose `count` mutants (or all there are), with equal chance among all of these files."""
    sources = [MutableSource(path) for path in paths]
    candidates = [(source, mutation) for source in sources for mutation in source.mutations]
    Random(seed).shuffle(candidates)
    chosen: dict[str, Mutant] = {}
    drawn = not_exchangeable = 0
    for source, mutation in candidates:
        if len(chosen) == count:
            break
        drawn += 1
        mutant = source.mutant(mutation)
        if mutant is None:
            not_exchangeable += 1
        else:
            chosen.setdefault(mutant.key, mutant)
    return Sample(list(chosen.values()), len(candidates), sum(source.at_import for source in sources), drawn, not_exchangeable)


def python_files(folders: Sequence[str]) -> Iterator[str]:
    """Yield the Python files below the folders, in order."""
    for folder in folders:
        yield from sorted(str(path) for path in Path(folder).rglob("*.py"))


_DECORATOR = re.compile(r"^( *)@(?=[\w.]+(\(.*\))?$)", re.MULTILINE)
_HIDDEN, _HIDDEN_DECORATOR = r"\1# hidden from mutmut: @", re.compile(r"^( *)# hidden from mutmut: @", re.MULTILINE)
"""mutmut leaves out functions that are decorated (properties, context managers), because it makes copies of them. Here only their code is
exchanged, so it sees their decorators as comments."""


class MutableSource:
    """One file and the mutations that mutmut offers for the bodies of its functions. at_import: how many others it offers."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._source = Path(path).read_text()
        self._module, mutations, _, _ = create_mutations(path, _DECORATOR.sub(_HIDDEN, self._source))
        self.mutations = [mutation for mutation in mutations if isinstance(mutation.contained_by_top_level_function, cst.FunctionDef)]
        self.at_import = len(mutations) - len(self.mutations)

    @cached_property
    def _metadata(self) -> tuple[Mapping[cst.CSTNode, CodeRange], Mapping[cst.CSTNode, cst.CSTNode]]:
        """Where each node is and what it is part of; only files of the sample pay for it."""
        wrapper = MetadataWrapper(self._module, unsafe_skip_copy=True)
        return wrapper.resolve(PositionProvider), wrapper.resolve(ParentNodeProvider)

    def mutant(self, mutation: Mutation) -> Mutant | None:
        """Return the mutant; None: no function's code differs (a default argument), or it is no program."""
        changed = self._module.deep_replace(mutation.original_node, mutation.mutated_node)
        assert isinstance(changed, cst.Module)
        function = self._qualified(mutation.contained_by_top_level_function)
        mutated = _HIDDEN_DECORATOR.sub(r"\1@", changed.code)
        mutant = Mutant(self._path, function, self._source, mutated, self._statement_lines(mutation.original_node))
        try:
            return mutant if exchanges(self._path, self._source, mutant.mutated) else None
        except (SyntaxError, NotExchangeable):
            return None

    def _qualified(self, function: cst.CSTNode | None) -> str:
        _, parents = self._metadata
        names = []
        while function is not None:
            if isinstance(function, cst.FunctionDef | cst.ClassDef):
                names.append(function.name.value)
            function = parents.get(function)
        return ".".join(reversed(names))

    def _statement_lines(self, node: cst.CSTNode) -> range:
        """Return the lines of the simple statement around the node, or of the node itself in the head of a compound one."""
        positions, parents = self._metadata
        around: cst.CSTNode | None = node
        while around is not None and not isinstance(around, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            around = parents.get(around)
        placed = around if isinstance(around, cst.SimpleStatementLine) else node
        while placed not in positions:
            placed = parents[placed]
        position = positions[placed]
        return range(position.start.line, position.end.line + 1)
