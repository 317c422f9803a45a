"""Reading a configuration: file or text or plain object -> complete `SchedulerConfiguration`, or a `ConfigError` with all mistakes.

The steps are kube-scheduler's: strict decoding, defaults, merging the plugins, the caller's adjustment (flags), validation, and then what
building the profiles would refuse. Every step runs even if an earlier one found mistakes, on what is left after them.

Flags change a configuration as in the reference: those of leader election always, the deprecated ones only without --config (framework.md
§1.1, §1.5).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from koordsched.config.catalogue import REFERENCE, REMOVED_PLUGINS, Catalogue
from koordsched.config.completion import Context, complete_profile, without_ignored_resources
from koordsched.config.decoding import decode_struct
from koordsched.config.defaults import apply_defaults, default_plugins
from koordsched.config.errors import ConfigError, ConfigMistake, Mistakes, invalid, near_miss, place, required
from koordsched.config.features import DEFAULT_GATES, FeatureGates
from koordsched.config.flag_table import Flags
from koordsched.config.plugin_sets import merge_plugins
from koordsched.config.types import API_VERSION, KIND, ClientConnection, LeaderElection, SchedulerConfiguration
from koordsched.config.validation import validate_configuration, validate_removed
from koordsched.yamltext.documents import ROOT, Document, Problem

if TYPE_CHECKING:
    from pathlib import Path


__all__ = [
    "ConfigError",
    "Environment",
    "default_config",
    "effective_config",
    "empty_config",
    "load_config",
    "load_config_object",
    "load_config_text",
]

DEFAULT_FILE = os.path.join(os.path.dirname(__file__), "default.json")
"""config/koord-scheduler-config.yaml without its comments: reading YAML, and importing what reads it, takes longer than all the rest."""
TEXT_NAME = "(config)"
FLAGS_NAME = "(flags)"
EMPTY = {"apiVersion": API_VERSION, "kind": KIND}

MAX_BYTES = 4 * 2**20
STDIN = "-"
EMPTY_DOCUMENT = Document(1, None, {}, ())
_ELECTION = {
    f"leader-elect-{info.name.replace('_', '-')}": info.name
    for info in msgspec.structs.fields(LeaderElection)
    if info.name != "leader_elect"
} | {"leader-elect": "leader_elect"}
_CONNECTION = {
    "kubeconfig": "kubeconfig",
    "kube-api-content-type": "content_type",
    "kube-api-qps": "qps",
    "kube-api-burst": "burst",
}
_DEBUGGING = {"profiling": "enable_profiling", "contention-profiling": "enable_contention_profiling"}

Adjustment = Callable[[SchedulerConfiguration], SchedulerConfiguration]


class Environment(msgspec.Struct, frozen=True):
    """What a configuration is read against. adjust: changes made after reading and before validating, as flags make them.

    installed: gives the catalogue that has out-of-tree plugins as well; asked only when the configuration names a plugin that `catalogue`
    lacks, because looking for them takes time.
    """

    gates: FeatureGates = DEFAULT_GATES
    catalogue: Catalogue = REFERENCE
    adjust: Adjustment | None = None
    installed: Callable[[], Catalogue] | None = None


PLAIN = Environment()


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration and extra flags. `config` is complete; `document` is what it was read from: defaults may differ."""

    config: SchedulerConfiguration
    document: Mapping[str, Any]
    args: tuple[str, ...] = ()


def load_config(path: Path | str, environment: Environment = PLAIN) -> SchedulerConfiguration:
    """Read a configuration from a YAML or JSON file ("-": standard input).

    ConfigError has every mistake; a file that cannot be read is one.
    """
    return load_config_text(read_file(path), environment, str(path))


def load_config_text(text: str | bytes, environment: Environment = PLAIN, name: str = TEXT_NAME) -> SchedulerConfiguration:
    """Read a configuration from YAML or JSON text; `name` stands for the file in messages."""
    return _finish(name, documents_of(text, name), environment)


def load_config_object(value: Mapping[str, Any], environment: Environment = PLAIN, name: str = TEXT_NAME) -> SchedulerConfiguration:
    """Read a configuration from the plain object that its text means."""
    return _finish(name, [Document(1, dict(value), {}, ())], environment)


def default_config(environment: Environment = PLAIN) -> SchedulerConfiguration:
    """Return what Koordinator's chart v1.8.0 ships: profile koord-scheduler (frameworkext.md §2.2)."""
    with open(DEFAULT_FILE, "rb") as file:
        return load_config_object(msgspec.json.decode(file.read()), environment, DEFAULT_FILE)


def empty_config(environment: Environment = PLAIN) -> SchedulerConfiguration:
    """Return what a scheduler without --config runs: profile default-scheduler with the in-tree plugins."""
    return load_config_object(EMPTY, environment)


def effective_config(flags: Flags, catalogue: Catalogue = REFERENCE) -> SchedulerConfiguration:
    """Return what a command line asks for: the file of --config, or the defaults, under the flags that change it (framework.md §1.5)."""
    environment = environment_of(flags, catalogue)
    return load_config(flags.config, environment) if flags.config else load_config_object(EMPTY, environment, FLAGS_NAME)


def environment_of(flags: Flags, catalogue: Catalogue) -> Environment:
    """Return what a command line lets a configuration be read against: its gates, and the flags that stand over what is read."""

    def adjust(config: SchedulerConfiguration) -> SchedulerConfiguration:
        return apply_leader_election_flags(config if flags.config else apply_deprecated_flags(config, flags), flags)

    return Environment(flags.gates, catalogue, adjust)


def read_file(path: Path | str) -> bytes:
    """Return a file's bytes ("-": standard input's), at most a little more than MAX_BYTES; ConfigError when it cannot be read."""
    try:
        if path == STDIN:
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise ConfigError([ConfigMistake(ROOT, f"cannot be read: {reason}", str(path))]) from None


def documents_of(source: str | bytes, name: str) -> list[Document]:
    """Return the documents that hold something; of an empty text one empty document."""
    try:
        data = source.encode() if isinstance(source, str) else source
        text = data.decode("utf-8-sig")
    except UnicodeError as error:
        raise ConfigError([ConfigMistake(ROOT, f"not valid UTF-8: {error}", name)]) from None
    if len(data) > MAX_BYTES:
        raise ConfigError([ConfigMistake(ROOT, f"larger than {MAX_BYTES} bytes", name)])
    from koordsched.yamltext.reading import read_documents  # noqa: PLC0415  # see there

    documents = read_documents(text)
    return [document for document in documents if document.value is not None or document.problems] or [EMPTY_DOCUMENT]


def _finish(name: str, documents: list[Document], environment: Environment) -> SchedulerConfiguration:
    first, *others = documents
    mistakes = Mistakes(name, first)
    config = _complete(first, environment, mistakes) if first.value is not None or not first.problems else None
    found = mistakes.found
    for other in others:
        found += Mistakes(name, other).found or [place(Problem(ROOT, "expected only one document", 1), name, other)]
    if found or config is None:
        raise ConfigError(sorted(dict.fromkeys(found), key=lambda mistake: (mistake.document, mistake.line or 0)))
    return config


def _complete(document: Document, environment: Environment, mistakes: Mistakes) -> SchedulerConfiguration:
    body = _without_header(document.value, mistakes.refused)
    decoded = apply_defaults(decode_struct(body, SchedulerConfiguration, "", mistakes.unreadable), _given_paths(document))
    defaults = default_plugins(environment.gates)
    merged = tuple(replace(profile, plugins=merge_plugins(defaults, profile.plugins)) for profile in decoded.profiles)
    config = replace(decoded, profiles=merged)
    config = environment.adjust(config) if environment.adjust is not None else config
    for path, problem in validate_configuration(config):
        mistakes.refused(path, problem)
    context = Context(environment.gates, _catalogue(environment, config), mistakes)
    completed = []
    for index, (profile, given) in enumerate(zip(config.profiles, decoded.profiles, strict=True)):
        where = f"profiles[{index}]"
        for path, problem in validate_removed(given, where):
            mistakes.refused(path, problem)
        completed.append(complete_profile(profile, given.plugins, where, context))
    return without_ignored_resources(replace(config, profiles=tuple(completed)))


def _catalogue(environment: Environment, config: SchedulerConfiguration) -> Catalogue:
    """Return the plugins that the configuration may name."""
    known = {*environment.catalogue.points, *REMOVED_PLUGINS}
    enabled = {name for profile in config.profiles for name in profile.plugins.enabled_names()}
    given_args = {entry.name for profile in config.profiles for entry in profile.plugin_config}
    if environment.installed is None or enabled | given_args <= known:
        return environment.catalogue
    return environment.installed()


def _without_header(value: Any, report: Callable[[str, str], None]) -> Any:
    """Check apiVersion and kind, without which nothing says that this is a scheduler's configuration, and return the rest."""
    if value is not None and not isinstance(value, dict):
        return value
    body = dict(value or {})
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        given = body.pop(key, None)
        if given in (None, ""):
            report(key, required(f"expected {expected}"))
        elif given != expected:
            report(key, invalid(given, f"expected {expected}{near_miss(str(given), [expected])}"))
    return body


def _given_paths(document: Document) -> frozenset[str]:
    """Return the paths, of those that a default depends on, that the document gives a value for."""
    value = document.value if isinstance(document.value, dict) else {}
    given = {str(key) for key, item in value.items() if item is not None}
    profiles = value.get("profiles")
    for index, profile in enumerate(profiles if isinstance(profiles, list) else []):
        if isinstance(profile, dict):
            given |= {f"profiles[{index}].{key}" for key, item in profile.items() if item is not None}
    return frozenset(given)


def apply_leader_election_flags(config: SchedulerConfiguration, flags: Flags) -> SchedulerConfiguration:
    """Put the leader-election flags that were given over the configuration's values."""
    election: LeaderElection = replace(config.leader_election, **_given(flags, _ELECTION))
    return replace(config, leader_election=election)


def apply_deprecated_flags(config: SchedulerConfiguration, flags: Flags) -> SchedulerConfiguration:
    """Put the connection and profiling flags that were given over the defaults."""
    connection: ClientConnection = replace(config.client_connection, **_given(flags, _CONNECTION))
    return replace(config, client_connection=connection, **_given(flags, _DEBUGGING))


def ignored_flags(flags: Flags) -> tuple[str, ...]:
    """Return the given flags that --config makes ineffective, sorted, with dashes."""
    deprecated = {*_CONNECTION, *_DEBUGGING} if flags.config else set()
    return tuple(f"--{name}" for name in sorted(flags.given & deprecated))


def _given(flags: Flags, attributes: dict[str, str]) -> dict[str, object]:
    """Return attribute -> value of the flags that were given."""
    return {attribute: getattr(flags, name.replace("-", "_")) for name, attribute in attributes.items() if name in flags.given}
