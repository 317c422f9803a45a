"""Names and sentences use the field's terms: a word that was replaced does not come back where it has gone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FOLDERS = ("koordsched/queue", "tests/unit/queue")
"""Where the words below were replaced. A folder is added when it is free of them."""

REPLACED = {
    r"outlook|prospects?|foreseen": "candidates, estimate, probe",
    r"hopes?|hopeful": "PreemptionBackoff",
    r"scouts?|crowds?": "probe pod, group",
    r"asleep|awake|wakes?|woken|waking|waker": "parked, active, moved",
    r"oracle|opinions?|hint_?book|interests?": "HintEvaluator, HintResult, EventRegistry, EventSubscriptions",
    r"told|tells?": "reported, report",
    r"somebody|nobody|anybody|everybody": "the name of the object",
}
WORD = re.compile("|".join(rf"(?<![a-z])(?:{words})(?![a-z])" for words in REPLACED), re.IGNORECASE)


def replaced_words(text: str) -> list[str]:
    return [f"{number}: {found}" for number, line in enumerate(text.splitlines(), 1) for found in WORD.findall(line)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_words_that_were_replaced_do_not_come_back(folder: str) -> None:
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert len(paths) > 10
    assert {path.name: found for path in paths if (found := replaced_words(path.read_text(encoding="utf-8") + path.stem))} == {}


def test_words_are_found_in_names_and_sentences() -> None:
    assert replaced_words("def scout_of(x): ...\nclass HintBook: ...\n# nobody waits\ntest_awake_group") == [
        "1: scout",
        "2: HintBook",
        "3: nobody",
        "4: awake",
    ]
    assert replaced_words("await the waiter's story; shop e, retold, foretells") == []
