"""Read a sweep's file strictly (docs/sweep.md), and all files that it names, since these decide with it what the results are.

Files are read here and not by the workers: these may run on machines that do not have them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from koordsched.config.errors import ConfigError
from koordsched.config.loading import DEFAULT_FILE, Environment, load_config_text, read_file
from koordsched.manifests.documents import InputError, expand, read_documents
from koordsched.manifests.strict import StrictReader, join
from koordsched.plugins import installed_catalogue
from koordsched.simulate.command import SimulateOptions
from koordsched.yamltext.documents import shown

FIELDS = ("configurations", "inputs", "seeds")
FILES = "files"
OF_THE_SWEEP = {"config": "configurations", "compare": "configurations", "seed": "seeds", "report": "sweep --report"}
"""Flags of `simulate` that an input does not have, and what of the sweep stands for them."""
LIVE = ("kubeconfig", "context")
"""Flags that an input does not have because a live cluster is another one when the sweep goes on."""

ReadFlags = Callable[[Sequence[str]], SimulateOptions]
"""Reads a command line of `simulate`. ValueError says what is wrong with it."""


class ConfigurationSource(msgspec.Struct, frozen=True):
    """A configuration as it was written. file: what messages call it."""

    name: str
    file: str
    text: bytes


class SweepInput(msgspec.Struct, frozen=True):
    """An input: what `simulate` is asked for, whose files (`paths_of`) hold `contents`."""

    name: str
    options: SimulateOptions
    contents: tuple[bytes, ...]


class Sweep(msgspec.Struct, frozen=True):
    """What is simulated: each input under each configuration with each seed, in the order of the file."""

    configurations: tuple[ConfigurationSource, ...]
    inputs: tuple[SweepInput, ...]
    seeds: tuple[int, ...]


class SweepError(Exception):
    """A sweep's file, or one that it names, cannot be used; `errors` has a line for each mistake."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = list(errors)


def read_sweep(path: str, read_flags: ReadFlags) -> Sweep:
    """Read a sweep's file and the files that it names, whose paths are relative to it. SweepError."""
    try:
        documents = read_documents(path)
    except InputError as mistake:
        raise SweepError([str(mistake)]) from None
    if len(documents) != 1:
        raise SweepError([f"{path}: expected one document, seen {len(documents)}"])
    reader = StrictReader(path)
    body = reader.mapping(documents[0].value, "", FIELDS, FIELDS)
    read = _Reader(reader, path, read_flags)
    sweep = Sweep(
        configurations=tuple(read.configurations(body.get("configurations", {}))),
        inputs=tuple(read.inputs(body.get("inputs", {}))),
        seeds=read.seeds(body.get("seeds", 1)),
    )
    if reader.mistakes:
        raise SweepError(reader.mistakes)
    return sweep


def paths_of(options: SimulateOptions) -> list[str]:
    """Return the files that `simulate` would read of an input, in a fixed order."""
    return [*options.inputs, *(path for path in (options.nodes, options.pods) if path is not None)]


def with_paths(options: SimulateOptions, paths: Sequence[str]) -> SimulateOptions:
    """Return the same with other files in the place of `paths_of`."""
    inputs, rest = tuple(paths[: len(options.inputs)]), iter(paths[len(options.inputs) :])
    nodes = None if options.nodes is None else next(rest)
    pods = None if options.pods is None else next(rest)
    return replace(options, inputs=inputs, nodes=nodes, pods=pods)


class _Reader:
    """Reads the parts; what is wrong goes to the reader of the document. path: that of the sweep's file."""

    def __init__(self, reader: StrictReader, path: str, read_flags: ReadFlags) -> None:
        self._reader = reader
        self._path = path
        self._folder = os.path.dirname(path)
        self._read_flags = read_flags

    def configurations(self, value: Any) -> Iterator[ConfigurationSource]:
        """Read what is given by name: a file, a KubeSchedulerConfiguration itself, or nothing, which is the shipped one."""
        for name, given in self._named(value, "configurations"):
            where = join("configurations", name)
            if given is None:
                file = DEFAULT_FILE
            elif isinstance(given, str):
                file = os.path.join(self._folder, given)
            elif isinstance(given, dict):
                file = f"{self._path}: {where}"
            else:
                self._reader.mistake(where, f"{shown(given)}: expected a file, a KubeSchedulerConfiguration, or nothing (the shipped one)")
                continue
            try:
                text = msgspec.json.encode(given) if isinstance(given, dict) else read_file(file)
                load_config_text(text, Environment(installed=installed_catalogue), file)
            except ConfigError as mistake:
                self._reader.mistakes += map(str, mistake.errors)
            else:
                yield ConfigurationSource(name, file, text)

    def inputs(self, value: Any) -> Iterator[SweepInput]:
        """Read what is given by name: the flags of `simulate`, and below `files` what stands there without a flag."""
        for name, given in self._named(value, "inputs"):
            where = join("inputs", name)
            try:
                yield self._input(name, self._reader.mapping(given, where))
            except (InputError, ValueError) as mistake:
                self._reader.mistake(where, str(mistake))

    def _input(self, name: str, given: Mapping[str, Any]) -> SweepInput:
        options = self._read_flags([*_arguments(given)])
        if "-" in paths_of(options):
            raise ValueError("standard input: name a file, which can be read again when the sweep goes on")
        options = with_paths(options, [os.path.join(self._folder, path) for path in paths_of(options)])
        options = replace(options, inputs=tuple(expand(list(options.inputs))))
        return SweepInput(name, options, tuple(map(_contents, paths_of(options))))

    def seeds(self, value: Any) -> tuple[int, ...]:
        """Read the seeds themselves, or how many there are, from 0 on."""
        if not isinstance(value, list):
            return tuple(range(self._reader.number(value, "seeds", least=1)))
        seeds = self._reader.numbers(value, "seeds")
        if not seeds or len(set(seeds)) < len(seeds):
            self._reader.mistake("seeds", "expected one seed at least, and none twice")
        return seeds

    def _named(self, value: Any, path: str) -> Iterator[tuple[str, Any]]:
        entries = self._reader.mapping(value, path)
        if isinstance(value, dict) and not entries:
            self._reader.mistake(path, "expected one at least, by name")
        for name, given in entries.items():
            if isinstance(name, str) and name:
                yield name, given
            else:
                self._reader.mistake(path, f"{shown(name)}: expected a text as name")


def _arguments(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield the command line of `simulate`. ValueError."""
    for flag, value in given.items():
        if flag in OF_THE_SWEEP:
            raise ValueError(f"{flag}: is not of an input, but of the sweep ({OF_THE_SWEEP[flag]})")
        if flag in LIVE:
            raise ValueError(f"{flag}: a live cluster is another one when the sweep goes on: name a file with what it has")
        for item in value if isinstance(value, list) else [value]:
            if item is None or isinstance(item, (dict, list, bool)):
                raise ValueError(f"{flag}: {shown(item)}: expected what simulate --{flag} takes, or a list of such")
            if flag != FILES:
                yield f"--{flag}={item}"
    files = given.get(FILES, [])
    yield "--"
    yield from map(str, files if isinstance(files, list) else [files])


def _contents(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as mistake:  # ValueError: a NUL in the path
        raise InputError(f"{path}: cannot be read: {getattr(mistake, 'strerror', None) or mistake}") from None
