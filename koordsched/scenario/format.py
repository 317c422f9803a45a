"""Read scenario files strictly: every mistake of every document is named with its path, and a near miss is suggested.

Callers get scenarios or mistakes, never both: a malformed file runs nothing (exit code 2). Expectations are read by `format_expect`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from koordsched.api.kinds import NODE_RESOURCE_TOPOLOGY
from koordsched.config.errors import ROOT, ConfigError
from koordsched.config.features import DEFAULT_GATES, FeatureGates
from koordsched.config.flags import FlagError, parse_flags
from koordsched.config.loading import Environment, load_config_object
from koordsched.config.types import SchedulerConfiguration
from koordsched.plugins import installed_catalogue
from koordsched.scenario.format_expect import read_expect
from koordsched.scenario.model import (
    KNOWN_SCHEDULERS,
    Action,
    Create,
    Delete,
    Given,
    Patch,
    PatchObject,
    Restart,
    Scenario,
    Step,
    Wait,
)
from koordsched.scenario.strict import StrictReader, join, shown
from koordsched.scenario.targets import read_kind, read_target
from koordsched.scenario.templating import bad_template
from koordsched.simulate.cpu_topology import SHORT_FORM, read_layout
from koordsched.simulate.documents import Document, InputError, read_documents

FIELDS = ("name", "why", "config", "args", "differs", "given", "steps")
KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
POD_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec", "status", "resources", "repeat"})
NODE_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec", "status", "repeat"})


class Loaded(msgspec.Struct):
    """What the files hold: scenarios in the order of the files, and everything that is wrong with them."""

    scenarios: list[Scenario]
    mistakes: list[str]


def load_scenarios(files: list[str]) -> Loaded:
    """Read all scenarios of these files. A name must be unique among all of them."""
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
            reader = StrictReader(document.origin)
            scenario = read_scenario(reader, document)
            if scenario.name in first:
                reader.mistake("name", f"{scenario.name!r} is the name of {first[scenario.name]} already")
            elif scenario.name:
                first[scenario.name] = document.origin
            loaded.mistakes += reader.mistakes
            loaded.scenarios.append(scenario)
    return loaded


def read_scenario(reader: StrictReader, document: Document) -> Scenario:
    """Read one document; what is wrong is in `reader.mistakes`."""
    fields = reader.mapping(document.value, "", FIELDS, required=("name", "why", "steps"))
    name = reader.text(fields.get("name", ""), "name")
    if name and not KEBAB.fullmatch(name):
        reader.mistake("name", f"{name!r}: expected kebab-case (lower-case words and digits joined by -)")
    why = reader.text(fields.get("why", ""), "why")
    args = reader.texts(fields.get("args", []), "args")
    given_config = fields.get("config")
    config = _config(reader, given_config, _gates(reader, args))
    steps = reader.list_(fields.get("steps", []), "steps")
    return Scenario(
        origin=document.origin,
        name=name,
        why=why,
        config=config,
        document=given_config if config is not None else None,
        args=args,
        differs=_differs(reader, fields.get("differs", {})),
        given=tuple(_given(reader, item, path) for path, item in reader.list_(fields.get("given", []), "given")),
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
        return parse_flags(args).gates
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
    return Create(objects=tuple(_given(reader, item, where) for where, item in reader.list_(value, path)))


def _patch(reader: StrictReader, value: Any, path: str) -> Patch:
    return Patch(patches=tuple(_patch_object(reader, item, where) for where, item in reader.list_(value, path)))


def _patch_object(reader: StrictReader, value: Any, path: str) -> PatchObject:
    known = ("apiVersion", "kind", "name", "namespace", "merge")
    fields = reader.mapping(value, path, known, required=("kind", "name", "merge"))
    merge = reader.mapping(fields.get("merge", {}), join(path, "merge"))
    _check_templates(reader, merge, join(path, "merge"))
    return PatchObject(path=path, target=read_target(reader, fields, path), merge=merge)


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


def _given(reader: StrictReader, value: Any, path: str) -> Given:
    """Read an object to create: kind and metadata.name must be there, `repeat` is ours, the rest is judged by the API's validation."""
    kind = value.get("kind") if isinstance(value, dict) else None
    known = POD_FIELDS if kind == "Pod" else NODE_FIELDS if kind == "Node" else None
    fields = reader.mapping(value, path, known, required=("kind", "metadata"))
    repeat = reader.number(fields.pop("repeat"), join(path, "repeat")) if "repeat" in fields else None
    if "kind" in fields and "metadata" in fields:
        metadata = reader.mapping(fields["metadata"], join(path, "metadata"), required=("name",))
        for key in ("name", "namespace"):
            reader.text(metadata.get(key, ""), join(path, f"metadata.{key}"))
        fields["apiVersion"] = read_kind(reader, fields, path).api_version
    if kind == NODE_RESOURCE_TOPOLOGY.kind and SHORT_FORM in fields:
        _check_layout(reader, fields[SHORT_FORM], path)
    _check_templates(reader, fields, path)
    return Given(path=path, body=fields, repeat=repeat)


def _check_layout(reader: StrictReader, value: Any, path: str) -> None:
    try:
        read_layout(value)
    except ValueError as mistake:
        reader.mistake(join(path, SHORT_FORM), str(mistake).removeprefix(f"{SHORT_FORM}: "))


def _check_templates(reader: StrictReader, value: Any, path: str) -> None:
    for where, text in bad_template(value, path):
        reader.mistake(where, f"{shown(text)}: expected ${{now}}, ${{now-90s}} or ${{now+2m}}")
