"""Read scenario files strictly: every mistake of every document is named with its path, and a near miss is suggested.

Callers get scenarios or mistakes, never both: a malformed file runs nothing (exit code 2). Objects are read by `format_given`,
expectations by `format_expect`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from koordsched.config.errors import ConfigError
from koordsched.config.features import DEFAULT_GATES, FeatureGates
from koordsched.config.flags import FlagError, parse_flags
from koordsched.config.loading import Environment, load_config_object
from koordsched.config.types import KIND as CONFIGURATION
from koordsched.config.types import SchedulerConfiguration
from koordsched.manifests.documents import InputDocument, InputError, read_documents
from koordsched.manifests.strict import StrictReader, join
from koordsched.plugins import installed_catalogue
from koordsched.scenario.format_expect import read_expect
from koordsched.scenario.format_given import read_given, read_patch, read_target
from koordsched.scenario.model import (
    KNOWN_SCHEDULERS,
    Action,
    Create,
    Delete,
    PatchObjects,
    Restart,
    Scenario,
    Step,
    Wait,
)
from koordsched.yamltext.documents import ROOT, shown

FIELDS = ("name", "why", "config", "args", "differs", "given", "steps")
REQUIRED = ("name", "why", "steps")
KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Loaded(msgspec.Struct):
    """What the files hold: scenarios in the order of the files, and everything that is wrong with them."""

    scenarios: list[Scenario]
    mistakes: list[str]


def load_scenarios(files: list[str]) -> Loaded:
    """Read all scenarios of these files. A name must be unique among all of them.

    KubeSchedulerConfigurations, beside which scenarios are kept, are passed over; some file must hold a scenario.
    """
    loaded = Loaded([], [])
    first: dict[str, str] = {}
    for file in files:
        try:
            documents = read_documents(file)
        except InputError as mistake:
            loaded.mistakes.append(str(mistake))
            continue
        if not documents:
            loaded.mistakes.append(f"{file}: holds no scenario")
        for document in documents:
            if isinstance(document.value, dict) and document.value.get("kind") == CONFIGURATION:
                continue
            reader = StrictReader(document.origin)
            scenario = read_scenario(reader, document)
            if scenario.name in first:
                reader.mistake("name", f"{scenario.name!r} is the name of {first[scenario.name]} already")
            elif scenario.name:
                first[scenario.name] = document.origin
            loaded.mistakes += reader.mistakes
            loaded.scenarios.append(scenario)
    if files and not loaded.scenarios and not loaded.mistakes:
        loaded.mistakes.append(f"{', '.join(files)}: nothing but configurations, no scenario")
    return loaded


def read_scenario(reader: StrictReader, document: InputDocument) -> Scenario:
    """Read one document; what is wrong is in `reader.mistakes`."""
    fields = reader.mapping(document.value, "", FIELDS, required=REQUIRED)
    fields = {key: value for key, value in fields.items() if value is not None or key in REQUIRED}
    name = reader.text(fields.get("name", ""), "name")
    if isinstance(fields.get("name"), str) and not KEBAB.fullmatch(name):
        reader.mistake("name", f"{name!r}: expected kebab-case (lower-case words and digits joined by -)")
    why = reader.text(fields.get("why", ""), "why")
    args = reader.texts(fields.get("args", []), "args")
    given_config = fields.get("config")
    config = _config(reader, given_config, _gates(reader, args))
    steps = reader.list_(fields.get("steps", []), "steps")
    return Scenario(
        origin=document.origin,
        body=document.value,
        name=name,
        why=why,
        config=config,
        document=given_config if config is not None else None,
        args=args,
        differs=_differs(reader, fields.get("differs", {})),
        given=tuple(read_given(reader, item, path) for path, item in reader.list_(fields.get("given", []), "given")),
        steps=tuple(_step(reader, item, path) for path, item in steps),
    )


def _config(reader: StrictReader, value: Any, gates: FeatureGates) -> SchedulerConfiguration | None:
    if value is None:
        return None
    try:
        return load_config_object(reader.mapping(value, "config"), Environment(gates=gates, installed=installed_catalogue))
    except ConfigError as mistake:
        for error in mistake.errors:
            reader.mistake("config" if error.path == ROOT else join("config", error.path), error.problem)
        return None


def _differs(reader: StrictReader, value: Any) -> dict[str, str]:
    fields = reader.mapping(value, "differs", KNOWN_SCHEDULERS)
    return {name: reader.text(why, join("differs", name)) for name, why in fields.items()}


def _gates(reader: StrictReader, args: tuple[str, ...]) -> FeatureGates:
    """Return the feature gates that the flags set; they decide what a configuration may say."""
    try:
        flags = parse_flags(args)
        if flags.config:
            reader.mistake("args", f"--config={flags.config}: a scenario says its configuration under config")
        return flags.gates
    except FlagError as mistake:
        for error in mistake.errors:
            reader.mistake("args", error)
        return DEFAULT_GATES


def _step(reader: StrictReader, value: Any, path: str) -> Step:
    fields = reader.mapping(value, path, VERBS)
    if len(fields) != 1:
        reader.mistake(path, f"a step is exactly one verb of {', '.join(VERBS)}; this one has {', '.join(fields) or 'none'}")
        return Step(path=path, action=Restart())
    ((verb, argument),) = fields.items()
    where = join(path, verb)
    return Step(path=where, action=VERBS[verb](reader, argument, where))


def _create(reader: StrictReader, value: Any, path: str) -> Create:
    return Create(objects=tuple(read_given(reader, item, where) for where, item in reader.list_(value, path)))


def _patch(reader: StrictReader, value: Any, path: str) -> PatchObjects:
    return PatchObjects(patches=tuple(read_patch(reader, item, where) for where, item in reader.list_(value, path)))


def _delete(reader: StrictReader, value: Any, path: str) -> Delete:
    targets = []
    for where, item in reader.list_(value, path):
        fields = reader.mapping(item, where, ("apiVersion", "kind", "name", "namespace"), required=("kind", "name"))
        targets.append((where, read_target(reader, fields, where)))
    return Delete(targets=tuple(targets))


def _wait(reader: StrictReader, value: Any, path: str) -> Wait:
    return Wait(seconds=reader.duration(value, path))


def _restart(reader: StrictReader, value: Any, path: str) -> Restart:
    if value is not True:
        reader.mistake(path, f"{shown(value)}: expected true")
    return Restart()


VERBS: dict[str, Callable[[StrictReader, Any, str], Action]] = {
    "create": _create,
    "patch": _patch,
    "delete": _delete,
    "wait": _wait,
    "restart": _restart,
    "expect": read_expect,
}
