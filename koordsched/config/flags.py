"""Command lines as pflag reads them, against `flag_table.Flags`; all mistakes at once, in pflag's and component-base's words.

`--flag=value`, `--flag value`, a boolean without value, `-v=4`, `-v 4`, `-v4`, `-fd`; `_` counts as `-` in a name; `--` ends the flags.
What is left over is refused: the scheduler takes no arguments.
"""

from __future__ import annotations

import csv
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, get_args, get_origin

from msgspec.structs import replace

from koordsched.api.quantity import QuantityError, nano
from koordsched.config.decoding import MAX_FLOAT32
from koordsched.config.duration import Duration, DurationError
from koordsched.config.errors import near_miss
from koordsched.config.features import FeatureGateError, parse_bool, parse_feature_gates
from koordsched.config.flag_table import FLAGS, NOT_ACTED_ON, SHORT, UNSPLIT, Flags

__all__ = ["FlagError", "Flags", "not_acted_on", "parse_flags"]

MAX_PORT = 65535
HIDDEN_METRICS_VERSION = "1.34"
LOG_FORMATS = ("text", "json")
TEXT_WHEN_BARE = "true"  # what a flag that needs no value gets

_INTEGER = re.compile(r"([-+]?)(?:0x([0-9a-fA-F]{1,40})|0b([01]{1,99})|0o?([0-7]{1,40})|(0|[1-9][0-9]{0,40}))", re.ASCII)

_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,5})?", re.ASCII)


class FlagError(ValueError):
    """A command line that cannot be used; `errors` has every reason."""

    def __init__(self, errors: Iterable[str]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(self.errors))


class _BadValueError(ValueError):
    """A flag's value is not of its type; the text is the one of Go's parser."""


def parse_flags(arguments: Sequence[str]) -> Flags:
    """Return the flags of a command line without the program's name; FlagError names everything that is wrong with it."""
    line = _Line(arguments)
    line.read()
    flags = Flags(**line.values, given=frozenset(line.given))
    errors = [*line.errors, *_problems(flags)]
    try:
        flags = replace(flags, gates=parse_feature_gates(flags.feature_gates))
    except FeatureGateError as error:
        errors += error.problems
    if errors:
        raise FlagError(errors)
    return flags


def not_acted_on(flags: Flags) -> tuple[str, ...]:
    """Return the given flags that change nothing in this version, sorted, with dashes."""
    return tuple(f"--{name}" for name in sorted(flags.given & NOT_ACTED_ON))


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
            listed = " ".join(map(_quoted, self._positional))
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
            value = _read(name, field.type, text)
        except _BadValueError as error:
            short = next((f"-{letter}, " for letter, long in SHORT.items() if long == name), "")
            self.errors.append(f'invalid argument {_quoted(text)} for "{short}--{name}" flag: {error}')
            return
        if name in self.given and isinstance(value, tuple):
            value = (*self.values[field.name], *value)
        elif name in self.given and isinstance(value, dict):
            value = {**self.values[field.name], **value}
        self.values[field.name] = value
        self.given.add(name)


def _stands_alone(name: str) -> bool:
    return FLAGS[name].type is bool or name == "version"


def _read(name: str, annotation: Any, text: str) -> Any:
    if name in UNSPLIT:
        return (text,)
    if name in _SPECIAL:
        return _SPECIAL[name](text)
    kind = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    if kind is str:
        return text
    if get_origin(kind) is tuple:
        return _read_list(text)
    if get_origin(kind) is dict:
        return _read_map(text)
    return _READERS[kind](text)


def _read_bool(text: str) -> bool:
    value = parse_bool(text)
    if value is None:
        raise _BadValueError(f"strconv.ParseBool: parsing {_quoted(text)}: invalid syntax")
    return value


def _read_integer(text: str, bits: int = 64) -> int:
    match = _INTEGER.fullmatch(text)
    if match is None:
        raise _BadValueError(f"strconv.ParseInt: parsing {_quoted(text)}: invalid syntax")
    sign, hexadecimal, binary, octal, decimal = match.groups()
    digits, base = (hexadecimal, 16) if hexadecimal else (binary, 2) if binary else (octal, 8) if octal else (decimal, 10)
    value = int(f"{sign}{digits}", base)
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise _BadValueError(f"strconv.ParseInt: parsing {_quoted(text)}: value out of range")
    return value


def _read_level(text: str) -> int:
    try:
        level = _read_integer(text, bits=33)
    except _BadValueError as error:
        raise _BadValueError(str(error).replace("ParseInt", "ParseUint")) from None
    if level < 0:
        raise _BadValueError(f"strconv.ParseUint: parsing {_quoted(text)}: invalid syntax")
    return level


def _read_float(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise _BadValueError(f"strconv.ParseFloat: parsing {_quoted(text)}: invalid syntax")
    value = float(text)
    if abs(value) > MAX_FLOAT32:
        raise _BadValueError(f"strconv.ParseFloat: parsing {_quoted(text)}: value out of range")
    return value


def _read_duration(text: str) -> Duration:
    try:
        return Duration.parse(text)
    except DurationError as error:
        raise _BadValueError(str(error)) from None


def _read_quantity(text: str) -> str:
    try:
        nano(text)
    except QuantityError as error:
        raise _BadValueError(error.problem) from None
    return text


def _read_ip(text: str) -> str:
    if text and not _is_ip(text.strip()):
        raise _BadValueError(f"failed to parse IP: {_quoted(text)}")
    return text.strip() or Flags().bind_address


def _read_vmodule(text: str) -> str:
    for item in filter(None, text.split(",")):
        pattern, _, level = item.partition("=")
        if not pattern or not level.isdecimal():
            raise _BadValueError(f"{_quoted(item)} does not have the pattern=N format")
    return text


def _read_list(text: str) -> tuple[str, ...]:
    if not text:
        return ()
    try:
        return tuple(next(csv.reader([text], strict=True)))
    except csv.Error as error:
        raise _BadValueError(str(error)) from None


def _read_map(text: str) -> dict[str, str]:
    pairs = (text.strip('"'),) if text.count("=") <= 1 else _read_list(text)
    made = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise _BadValueError(f"{pair} must be formatted as key=value")
        made[key] = value
    return made


_READERS: dict[Any, Callable[[str], Any]] = {
    bool: _read_bool,
    int: _read_integer,
    float: _read_float,
    Duration: _read_duration,
}
_SPECIAL: dict[str, Callable[[str], Any]] = {
    "bind-address": _read_ip,
    "kube-api-burst": lambda text: _read_integer(text, bits=32),
    "log-text-info-buffer-size": _read_quantity,
    "v": _read_level,
    "vmodule": _read_vmodule,
}


def _problems(flags: Flags) -> Iterator[str]:
    """Yield what is wrong with values that have the right type."""
    if not 0 <= flags.secure_port <= MAX_PORT:
        yield f"--secure-port {flags.secure_port} must be between 0 and 65535, inclusive. 0 for turning off secure port"
    if not 0 <= flags.port <= MAX_PORT:
        yield f"--port {flags.port} must be between 0 and 65535, inclusive. 0 for turning off insecure (HTTP) port"
    if flags.address and not _is_ip(flags.address):
        yield f"--address {flags.address} is an invalid IP address"
    if flags.show_hidden_metrics_for_version not in {"", HIDDEN_METRICS_VERSION}:
        yield (
            f"--show-hidden-metrics-for-version must be omitted or have the value '{HIDDEN_METRICS_VERSION}'. "
            "Only the previous minor version is allowed"
        )
    if flags.logging_format not in LOG_FORMATS:
        yield f"format: Invalid value: {_quoted(flags.logging_format)}: Unsupported log format"


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
