"""Command lines as pflag reads them, against `flag_table.Flags`; all mistakes at once, in pflag's and component-base's words.

`--flag=value`, `--flag value`, a boolean without value, `-v=4`, `-v 4`, `-v4`, `-fd`; `_` counts as `-` in a name; `--` ends the flags.
What is left over is refused: the scheduler takes no arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import FieldInfo, fields, replace

from koordsched.config.errors import near_miss
from koordsched.config.features import FeatureGateError, parse_feature_gates
from koordsched.config.flag_checks import flag_problems
from koordsched.config.flag_table import NOT_ACTED_ON, SHORT, Flags
from koordsched.config.flag_values import BadValueError, quoted, read_allowed_labels, read_value

__all__ = ["FLAGS", "FlagError", "Flags", "not_acted_on", "parse_flags"]

ADDED = frozenset({"given", "gates"})
FLAGS: dict[str, FieldInfo] = {info.name.replace("_", "-"): info for info in fields(Flags) if info.name not in ADDED}
"""All flags by name, without dashes."""

TEXT_WHEN_BARE = "true"  # what a flag that needs no value gets


class FlagError(ValueError):
    """A command line that cannot be used; `errors` has every reason."""

    def __init__(self, errors: Iterable[str]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(self.errors))


def parse_flags(arguments: Sequence[str]) -> Flags:
    """Return the flags of a command line without the program's name; FlagError names everything that is wrong with it."""
    line = _Line(arguments)
    line.read()
    flags = Flags(**line.values, given=frozenset(line.given))
    errors = list(line.errors)
    try:
        labels = flags.allow_metric_labels or read_allowed_labels(flags.allow_metric_labels_manifest)
        flags = replace(flags, allow_metric_labels=labels)
    except BadValueError as error:
        errors.append(f"--allow-metric-labels-manifest {flags.allow_metric_labels_manifest}: {error}")
    try:
        flags = replace(flags, gates=parse_feature_gates(flags.feature_gates))
    except FeatureGateError as error:
        errors += error.problems
    errors += flag_problems(flags)
    if errors:
        raise FlagError(errors)
    return flags


def not_acted_on(flags: Flags) -> tuple[str, ...]:
    """Return the given flags that change nothing in this version, sorted, with dashes."""
    return tuple(f"--{name}" for name in sorted(flags.given & NOT_ACTED_ON.keys()))


class _Line:
    """One reading of a command line."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._rest = list(arguments)
        self._positional: list[str] = []
        self.values: dict[str, Any] = {}
        self.given: set[str] = set()
        self.errors: list[str] = []

    def read(self) -> None:
        while self._rest:
            word = self._rest.pop(0)
            if word == "--":
                self._positional += self._rest
                break
            if word.startswith("--"):
                self._long(word)
            elif word.startswith("-") and len(word) > 1:
                self._shorts(word[1:])
            else:
                self._positional.append(word)
        if any(self._positional):
            listed = " ".join(map(quoted, self._positional))
            self.errors.append(f'"koord-scheduler" does not take any arguments, got [{listed}]')

    def _long(self, word: str) -> None:
        written, equals, value = word[2:].partition("=")
        name = written.replace("_", "-")
        if not name or name.startswith("-"):
            self.errors.append(f"bad flag syntax: {word}")
        elif name not in FLAGS:
            known = (f"--{flag}" for flag in FLAGS)
            self.errors.append(f"unknown flag: --{written}{near_miss(f'--{name}', known)}")
        elif equals:
            self._set(name, value)
        elif _stands_alone(name):
            self._set(name, TEXT_WHEN_BARE)
        elif self._rest:
            self._set(name, self._rest.pop(0))
        else:
            self.errors.append(f"flag needs an argument: --{written}")

    def _shorts(self, letters: str) -> None:
        """Read -fd, -s5, -s=5 or -s 5."""
        for index, letter in enumerate(letters):
            name, rest = SHORT.get(letter), letters[index + 1 :]
            if name is None:
                self.errors.append(f"unknown shorthand flag: '{letter}' in -{letters[index:]}")
                return
            if len(rest) > 1 and rest.startswith("="):
                self._set(name, rest[1:])
                return
            if _stands_alone(name):
                self._set(name, TEXT_WHEN_BARE)
                continue
            if rest:
                self._set(name, rest)
            elif self._rest:
                self._set(name, self._rest.pop(0))
            else:
                self.errors.append(f"flag needs an argument: '{letter}' in -{letters[index:]}")
            return

    def _set(self, name: str, text: str) -> None:
        field = FLAGS[name]
        try:
            value = read_value(name, field.type, text)
        except BadValueError as error:
            short = next((f"-{letter}, " for letter, long in SHORT.items() if long == name), "")
            self.errors.append(f'invalid argument {quoted(text)} for "{short}--{name}" flag: {error}')
            return
        if name in self.given and isinstance(value, tuple):
            value = (*self.values[field.name], *value)
        elif name in self.given and isinstance(value, dict):
            value = {**self.values[field.name], **value}
        self.values[field.name] = value
        self.given.add(name)


def _stands_alone(name: str) -> bool:
    return FLAGS[name].type is bool or name == "version"
