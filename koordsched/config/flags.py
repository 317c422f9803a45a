"""Command lines as pflag reads them, against `flag_table.Flags`; all mistakes at once, in pflag's and component-base's words.

`--flag=value`, `--flag value`, a boolean without value, `-v=4`, `-v 4`, `-v4`, `-fd`; `_` counts as `-` in a name; `--` ends the flags.
What is left over is refused: the scheduler takes no arguments.

`flag_problems` is what is wrong with a command line whose values all have the right type, in the words of the component that has the flag.
Flags that change nothing here are checked all the same: a line that koord-scheduler or kube-scheduler refuses is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import FieldInfo, fields, replace

from koordsched.config.errors import forbidden, invalid, near_miss
from koordsched.config.features import FeatureGateError, parse_feature_gates
from koordsched.config.flag_table import NOT_ACTED_ON, SHORT, Flags
from koordsched.config.flag_values import BadValueError, is_ip, quoted, read_allowed_labels, read_value, written

__all__ = ["FLAGS", "FlagError", "Flags", "not_acted_on", "parse_flags"]

MAX_PORT = 65535
REQUEST_HEADERS = (
    "requestheader-username-headers",
    "requestheader-group-headers",
    "requestheader-extra-headers-prefix",
    "requestheader-uid-headers",
    "requestheader-allowed-names",
)
STANDARD_UID_HEADER = "x-remote-uid"
HIDDEN_METRICS_VERSION = "1.34"
LOG_FORMATS = ("text", "json")
LOGGING_ALPHA = "LoggingAlphaOptions"
ALPHA_LOG_FLAGS = {
    "log-text-split-stream": "options.text.splitStream",
    "log-text-info-buffer-size": "options.text.infoBufferSize",
    "log-json-split-stream": "options.json.splitStream",
    "log-json-info-buffer-size": "options.json.infoBufferSize",
}
METRIC_LABEL = r"[a-zA-Z_:][a-zA-Z0-9_:]*,[a-zA-Z_][a-zA-Z0-9_]*"
KUBE = "kube"
OLDEST_MINOR, OWN_MINOR = 32, 35
"""Kubernetes 1.x versions that can be emulated."""

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


def takes_value(name: str) -> bool:
    """Return whether a value must follow the flag."""
    return not _stands_alone(name)


def takes_file(name: str) -> bool:
    """Return whether the value is a path."""
    return FLAGS[name].type is str and name.endswith(("config", "file", "-to", "-dir", "-manifest"))


def _stands_alone(name: str) -> bool:
    return FLAGS[name].type is bool or name == "version"


def flag_problems(flags: Flags) -> Iterator[str]:
    """Yield every mistake."""
    yield from _port_problems(flags)
    yield from _request_problems(flags)
    yield from _metrics_problems(flags)
    yield from _log_problems(flags)
    yield from _version_problems(flags)
    if flags.cache_check_interval < 0:
        yield f"--cache-check-interval {written(flags.cache_check_interval)} must be at least 0. 0 for turning off the check"


def _port_problems(flags: Flags) -> Iterator[str]:
    if not 0 <= flags.secure_port <= MAX_PORT:
        yield f"--secure-port {flags.secure_port} must be between 0 and 65535, inclusive. 0 for turning off secure port"
    if not 0 <= flags.port <= MAX_PORT:
        yield f"--port {flags.port} must be between 0 and 65535, inclusive. 0 for turning off insecure (HTTP) port"
    if flags.address and not is_ip(flags.address):
        yield f"--address {flags.address} is an invalid IP address"


def _request_problems(flags: Flags) -> Iterator[str]:
    """Yield what k8s.io/apiserver says of the flags for front proxies and open paths."""
    for name in REQUEST_HEADERS:
        if not all(value.strip() for value in getattr(flags, name.replace("-", "_"))):
            yield f'empty value in "{name}"'
    uids = flags.requestheader_uid_headers
    if uids and STANDARD_UID_HEADER not in {uid.lower() for uid in uids}:
        yield "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation will not work"
    for path in (path.removeprefix("/") for path in flags.authorization_always_allow_paths):
        if "*" in path[:-1]:
            yield f"only trailing * allowed in {quoted(path)}"


def _metrics_problems(flags: Flags) -> Iterator[str]:
    if flags.show_hidden_metrics_for_version not in {"", HIDDEN_METRICS_VERSION}:
        yield (
            f"--show-hidden-metrics-for-version must be omitted or have the value '{HIDDEN_METRICS_VERSION}'. "
            "Only the previous minor version is allowed"
        )
    for wrong in (key for key in flags.allow_metric_labels if not re.fullmatch(METRIC_LABEL, key)):
        where = "--allow-metric-labels" if "allow-metric-labels" in flags.given else "--allow-metric-labels-manifest"
        yield f"{where} must have a list of kv pair with format `metricName,labelName=labelValue, labelValue,...`, not {quoted(wrong)}"


def _log_problems(flags: Flags) -> Iterator[str]:
    """Yield what k8s.io/component-base/logs says."""
    if flags.logging_format not in LOG_FORMATS:
        yield f"format: {invalid(flags.logging_format, 'Unsupported log format')}"
    if flags.log_flush_frequency <= 0:
        yield f"flushFrequency: {invalid(flags.log_flush_frequency.text, 'Must be greater than zero')}"
    if flags.vmodule and flags.logging_format != "text":
        yield f"vmodule: {forbidden('Only supported for text log format')}"
    if not flags.gates[LOGGING_ALPHA]:
        off = (False, Flags().log_text_info_buffer_size)
        for name, where in ALPHA_LOG_FLAGS.items():
            if getattr(flags, name.replace("-", "_")) not in off:
                yield f"{where}: {forbidden(f'Feature {LOGGING_ALPHA} is disabled')}"


def _version_problems(flags: Flags) -> Iterator[str]:
    """Yield what k8s.io/component-base/version says of versions to emulate, and to be compatible with."""
    emulated, problems = _minor(flags.emulated_version)
    yield from problems
    if emulated is not None and not OLDEST_MINOR <= emulated <= OWN_MINOR:
        yield f"emulation version 1.{emulated} is not between [1.{OLDEST_MINOR}, 1.{OWN_MINOR}]"
    compatible, problems = _minor(flags.min_compatibility_version)
    yield from problems
    highest = OWN_MINOR if emulated is None else emulated
    if compatible is not None and not OLDEST_MINOR <= compatible <= highest:
        yield f"minCompatibilityVersion version 1.{compatible} is not between [1.{OLDEST_MINOR}, 1.{highest}]"


def _minor(items: tuple[str, ...]) -> tuple[int | None, list[str]]:
    """Return the minor version of the last of `[kube=]1.N` items, None when there is none, and what is wrong with them."""
    minor, problems = None, []
    for item in items:
        component, equals, version = item.rpartition("=")
        if equals and component.strip() != KUBE:
            problems.append(f"component not registered: {component.strip()}")
            continue
        match = re.fullmatch(r"v?1\.(0|[1-9][0-9]{0,5})(\.[0-9.]*)?", version.strip(), re.ASCII)
        if match is None:
            problems.append(f"could not parse {quoted(version)} as version")
        elif match[2]:
            problems.append(f"patch version not allowed, got: {KUBE}={version}")
        else:
            minor = int(match[1])
    return minor, problems
