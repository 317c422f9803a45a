"""The field's terms: a word that was replaced does not come back where it has gone, and a class name has one meaning."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

PLACES = ("koordsched", "plugins", "bench", "tests", "docs", "README.md", "CONTRIBUTING.md")
SUFFIXES = frozenset({".py", ".pyx", ".pxd", ".md"})
LIST = Path(__file__)  # which has to name them

REPLACED = {
    r"outlooks?|prospects?|foreseen": "candidates, estimate, probe",
    r"hopes?|hopeful": "PreemptionBackoff",
    r"occupants?|occupancy|occupied_by": "victims index, pod",
    r"swayed": "affected_by_removals",
    r"suppos\w*|what_?if": "simulation, simulate_on_node",
    r"departures?|patience|relay": "EvictionWatcher, CancellableWaits, BindingTasks",
    r"scouts?|crowds?|crowding": "probe pod, group, spread score",
    r"asleep|awake|wakes?|woken|waking|waker": "parked, active, moved",
    r"oracle|opinions?|hint_?book|interests?": "HintEvaluator, HintResult, EventRegistry, EventSubscriptions",
    r"told|tells?|untold": "reported, report",
    r"manners|surroundings": "RecorderOptions, PluginHandle",
    r"stopwatch": "timings",
    r"grounds|belonging": "soft constraints, default selector",
    r"nonsense|ledger|beliefs?|(?<!config\.)mirror(?! pods?|_pod)": "MalformedResponse, pod history, cache comparison, store",
    r"somebody|nobody|anybody|everybody|someone|anyone|everyone": "the name of the object",
}
WORD = re.compile("|".join(rf"(?<![a-z])(?:{words})(?![a-z])" for words in REPLACED), re.IGNORECASE)

REPLACED_NAMES = frozenset(
    [
        "Claim",
        "Claims",
        "Beyond",
        "Opinion",
        "Orders",
        "Parts",
        "FreshReasons",
        "Said",
        "Front",
        "Gate",
        "Guard",
        "Memory",
        "World",
        "Tally",
        "Level",
        "Reading",
        "Cell",
        "Places",
        "Supply",
        "Promise",
        "Reach",
        "FreeCpus",
        "Held",
        "Likes",
        "Plan",
        "Filtering",
        "Scoring",
        "Hints",
        "Term",
        "Settings",
        "Who",
        "Names",
        "Found",
        "Sent",
        "LookedAt",
        "Holding",
        "Open",
        "Asking",
    ]
)
"""Words that are good in sentences, and say too little as the name of a class."""


def replaced_words(text: str) -> list[str]:
    return [f"{number}: {found}" for number, line in enumerate(text.splitlines(), 1) for found in WORD.findall(line)]


@cache
def sources() -> dict[str, str]:
    """Return the texts of all files, by their path in the project."""
    paths = [path for place in PLACES for path in ((ROOT / place).rglob("*") if (ROOT / place).is_dir() else [ROOT / place])]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths if path.suffix in SUFFIXES and path != LIST}


@cache
def classes() -> dict[str, list[str]]:
    """Return where each public class name is defined in the package."""
    found = defaultdict(list)
    for path, text in sources().items():
        if path.startswith("koordsched/"):
            names = (
                [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
                if path.endswith(".py")
                else re.findall(r"^cdef class (\w+)", text, re.MULTILINE)
                if path.endswith(".pyx")
                else []
            )
            for name in names:
                if not name.startswith("_"):
                    found[name].append(path)
    return dict(found)


def test_words_that_were_replaced_do_not_come_back() -> None:
    assert len(sources()) > 600
    found = {path: words for path, text in sources().items() if (words := replaced_words(f"{text}\n{Path(path).stem}"))}
    assert found == {}


def test_a_class_name_has_one_meaning() -> None:
    assert len(classes()) > 500
    assert {name: paths for name, paths in classes().items() if len(paths) > 1 or name in REPLACED_NAMES} == {}


def test_words_are_found_in_names_and_sentences() -> None:
    assert replaced_words("def scout_of(x): ...\nclass HintBook: ...\n# nobody waits\ntest_awake_group") == [
        "1: scout",
        "2: HintBook",
        "3: nobody",
        "4: awake",
    ]
    assert replaced_words("await the waiter's story; shop e, retold, foretells") == []
