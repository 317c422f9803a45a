"""Every text that a refused pod may show, and every reason of an event, as the sources of the scheduler write them.

Found by reading the syntax trees: what `unschedulable`, `unresolvable`, `error` and `Status` are called with, and the constants of modules
that hold nothing but texts. A part that is filled in is `*` in a text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "koordsched"
PLACES = ("plugins", "framework", "scheduler")
ANSWERS = {"unschedulable", "unresolvable", "error", "Status"}
OF_TEXTS = ("reasons.py", "volumes.py")
"""Modules whose constants are reasons."""


@cache
def _modules() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for place in PLACES for path in sorted((PACKAGE / place).rglob("*.py"))}


@cache
def _constants() -> dict[str, set[str]]:
    """Return the texts that constants of modules have, by the constant's name."""
    found: dict[str, set[str]] = {}
    for module in _modules().values():
        for name, value in _assigned(module):
            text = _text(value)
            if text:
                found.setdefault(name, set()).add(text)
    return found


def _assigned(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in module.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value


def _text(node: ast.expr) -> str:
    """Return the text that an expression is, "" when it is not written there."""
    match node:
        case ast.Constant(value=str(text)):
            return re.sub(r"\{\w*\}", "*", text)
        case ast.JoinedStr(values=parts):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left) + _text(right)
    return ""


def _texts(node: ast.expr) -> set[str]:
    """Return the texts of an argument: itself, a constant's, a constant's that is formatted, or those of a tuple."""
    if text := _text(node):
        return {text}
    match node:
        case ast.Name(id=name):
            return _constants().get(name, set())
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="format")):
            return _constants().get(name, set())
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            return {text for part in parts for text in _texts(part)}
        case ast.Starred(value=ast.GeneratorExp(elt=inner)) | ast.Starred(value=ast.ListComp(elt=inner)):
            return _texts(inner)
        case ast.IfExp(body=first, orelse=second):
            return _texts(first) | _texts(second)
    return set()


def reasons() -> dict[str, str]:
    """Return the texts of refusals and errors, each with a module that has it."""
    found: dict[str, str] = {}
    for path, module in _modules().items():
        where = str(path.relative_to(PACKAGE))
        texts: set[str] = set()
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ANSWERS:
                texts.update(text for argument in node.args for text in _texts(argument))
        if where.startswith("plugins/"):
            texts.update(text for _, value in _assigned(module) for text in _texts(value))
        if path.name in OF_TEXTS:
            texts.update(_returned(module))
        for text in texts:
            if re.search(r"[A-Za-z]{2}.* .*[A-Za-z]|[A-Za-z]{3} \*", text):  # a sentence, not a code or a list of names
                found.setdefault(text, where)
    return found


def _returned(module: ast.Module) -> Iterator[str]:
    """Yield the texts that functions of a module of texts return."""
    for node in ast.walk(module):
        if isinstance(node, ast.Return) and node.value is not None:
            for part in ast.walk(node.value):
                if isinstance(part, ast.JoinedStr):
                    yield _text(part)


def events() -> dict[str, str]:
    """Return the reasons of events, each with a module that has it: where the event is made, or as a constant."""
    found: dict[str, str] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "EventText(" not in source and "ProblemReporter(" not in source and "_EVENT = " not in source:
            continue
        written = re.findall(r'EventText\(\s*"(?:Warning|Normal)",\s*"([\w-]+)"', source)
        constants = re.findall(r'^(?:\w*EVENT|INVALID|TOPOLOGY_IGNORED) = "([A-Z][\w-]+)"$', source, re.MULTILINE)
        for text in written + constants:
            found.setdefault(text, str(path.relative_to(PACKAGE)))
    return found
