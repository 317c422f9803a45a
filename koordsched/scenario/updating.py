"""What an `expect` block would have to say to hold: `test --update`.

Corrected is what states a fact: where a pod is, or why it waits, how many are bound, what an annotation or an object holds, the status of
an answer. Relations between pods, events and what belongs to a plugin (CPUs, devices) are not: they say what is meant, and nothing that was
seen says it better. A block is corrected as a whole or not at all, and only when it then holds.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from koordsched.api.meta import JSON_ERRORS
from koordsched.manifests.strict import StrictReader
from koordsched.scenario.expectations import counted_pods, differences
from koordsched.scenario.format_expect import pod_key, read_expect
from koordsched.scenario.model import Expect
from koordsched.scenario.observation import Json, Seen, node_of, refusal, tried

PLACEMENT = ("node", "pending", "gated", "gone")
"""What says where a pod is: of these only one holds."""

Path = tuple[str | int, ...]


class Correction(NamedTuple):
    """A value that takes the place of another one in a document."""

    path: Path
    value: Any

    def __str__(self) -> str:
        text = ""
        for key in self.path:
            text += f"[{key}]" if isinstance(key, int) else f".{key}"
        return f"{text[1:]} is {msgspec.json.encode(self.value).decode()}"


class Corrector:
    """Collects the corrections of one scenario; `body` is its document."""

    def __init__(self, body: Any) -> None:
        self.made: list[Correction] = []
        self._body = body

    def correct(self, path: str, seen: Seen | None) -> bool:
        """Correct the block at this path ("steps[1].expect") by what was seen; whether it holds then."""
        found = re.fullmatch(r"steps\[(\d+)\]\.expect", path)
        if seen is None or found is None:
            return False
        index = int(found[1])
        block = self._body["steps"][index]["expect"]
        corrections = list(_corrections(block, seen))
        changed = copy.deepcopy(block)
        for correction in corrections:
            put(changed, correction)
        if not _holds(changed, seen):
            return False
        self.made += [Correction(("steps", index, "expect", *each.path), each.value) for each in corrections]
        return True


def put(document: Any, correction: Correction) -> None:
    """Make a correction in a document of plain values."""
    *parents, last = correction.path
    for key in parents:
        document = document[key]
    document[last] = correction.value


def _read(block: Json) -> Expect:
    return read_expect(StrictReader(""), block, "")


def _holds(block: Json, seen: Seen) -> bool:
    return not differences(seen, _read(block))


def _corrections(block: Json, seen: Seen) -> Iterator[Correction]:
    for name, rule in (block.get("pods") or {}).items():
        for correction in _of_pod(name, rule, seen):
            yield Correction(("pods", name, *correction.path), correction.value)
    for key in ("bound", "pending"):
        if key in block and not _holds({key: block[key]}, seen):
            rule = getattr(_read({key: block[key]}), key)
            count = len(counted_pods(seen, rule, bound=key == "bound"))
            yield Correction((key, "count") if isinstance(block[key], dict) else (key,), count)
    for index, rule in enumerate(block.get("objects") or []):
        if not _holds({"objects": [rule]}, seen) and "has" in rule:
            found = seen.objects[_read({"objects": [rule]}).objects[0].target]
            if found is None:
                yield Correction(("objects", index), {**{key: rule[key] for key in rule if key != "has"}, "gone": True})
            else:
                yield Correction(("objects", index, "has"), _as_asked(found, rule["has"]))
    for index, rule in enumerate(block.get("http") or []):
        if not _holds({"http": [{"path": rule["path"], "status": rule.get("status", 200)}]}, seen):
            answered = seen.answers[rule["path"]].status
            path: Path = ("http", index, "status") if "status" in rule else ("http", index)
            yield Correction(path, answered if "status" in rule else {**rule, "status": answered})


def _of_pod(name: str, rule: Json, seen: Seen) -> Iterator[Correction]:
    """Yield what of a pod's rule has to change, as little of it as can be."""
    wrong = [key for key, value in rule.items() if not _holds({"pods": {name: {key: value}}}, seen)]
    body = seen.pods.get(pod_key(name))
    if body is None or body["metadata"].get("deletionTimestamp"):
        if wrong:
            yield Correction((), {"gone": True})
        return
    placement = _placement(body)
    if not set(wrong) & set(PLACEMENT):
        pass
    elif set(placement) == set(wrong) & set(PLACEMENT):
        ((key, value),) = placement.items()
        yield Correction((key,), value)
    else:
        kept = {key: _fact(body, key, value) if key in wrong else value for key, value in rule.items() if key not in PLACEMENT}
        yield Correction((), {**placement, **kept})
        return
    for key in wrong:
        if key == "annotations":
            texts = body["metadata"].get("annotations") or {}
            for annotation, wanted in rule[key].items():
                if not _holds({"pods": {name: {key: {annotation: wanted}}}}, seen):
                    yield Correction((key, annotation), _annotation(texts.get(annotation), wanted))
        elif key not in PLACEMENT:
            yield Correction((key,), _fact(body, key, rule[key]))


def _placement(body: Json) -> Json:
    """Return the one rule that says where a pod is. What is said of preemption is left out: it changes with pods that are not meant."""
    if node_of(body):
        return {"node": node_of(body)}
    if not tried(body):
        return {"gated": True}
    return {"pending": (refusal(body) or ("", ""))[1].partition(" preemption: ")[0] or True}


def _fact(body: Json, key: str, wanted: Any) -> Any:
    """Return what a pod has in the place of what a rule says; the rule itself where that cannot be said."""
    if key == "nominated":
        return body.get("status", {}).get("nominatedNodeName") or ""
    if key == "annotations":
        texts = body["metadata"].get("annotations") or {}
        return {annotation: _annotation(texts.get(annotation), value) for annotation, value in wanted.items()}
    return wanted


def _annotation(text: str | None, wanted: Any) -> Any:
    if text is None or not isinstance(wanted, dict | list):
        return text
    try:
        return _as_asked(msgspec.json.decode(text), wanted)
    except JSON_ERRORS:
        return text


def _as_asked(seen: Any, wanted: Any) -> Any:
    """Return what was seen, of maps only the keys that were asked for."""
    if isinstance(wanted, dict) and isinstance(seen, dict):
        return {key: _as_asked(seen.get(key), value) for key, value in wanted.items()}
    return seen
