"""Results as JUnit XML, which CI systems show: one suite a file, one case a scenario."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from koordsched.scenario.runner import ScenarioResult

NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


def junit(results: Sequence[tuple[ScenarioResult, float]]) -> bytes:
    """Return the document. results: with the seconds that each scenario took."""
    root = ET.Element("testsuites", _counted(results))
    files = dict.fromkeys(_file(result) for result, _ in results)
    for file in files:
        own = [(result, seconds) for result, seconds in results if _file(result) == file]
        suite = ET.SubElement(root, "testsuite", {"name": file, **_counted(own)})
        for result, seconds in own:
            case = ET.SubElement(suite, "testcase", {"classname": file, "name": result.name, "file": file, "time": f"{seconds:.3f}"})
            if result.skipped:
                ET.SubElement(case, "skipped", {"message": _text(result.skipped)})
            elif result.failure:
                failure = ET.SubElement(case, "failure", {"message": _text(" ".join(result.failure.split())), "type": "expectation"})
                failure.text = _text("\n".join([result.where, *map(str, result.differences), *result.details]))
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _counted(results: Sequence[tuple[ScenarioResult, float]]) -> dict[str, str]:
    return {
        "tests": str(len(results)),
        "failures": str(sum(bool(result.failure) for result, _ in results)),
        "errors": "0",
        "skipped": str(sum(bool(result.skipped) for result, _ in results)),
        "time": f"{sum(seconds for _, seconds in results):.3f}",
    }


def _file(result: ScenarioResult) -> str:
    return _text(result.origin.rpartition(": document ")[0])


def _text(text: str) -> str:
    return NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
