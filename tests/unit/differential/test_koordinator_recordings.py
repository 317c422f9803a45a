"""Ours decides as Koordinator's scheduler did about the recorded pods: nodes, every plugin's scores, refusals and victims are equal.

`make differential ARGS="--record FILE"` records more; tests/recorded holds what is replayed here.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from support.differential.koordinator.areas import AREAS
from support.differential.koordinator.moments import absolute, moment, relative
from support.differential.koordinator.recording import Recording, append, load
from support.differential.koordinator.replay import replay
from support.differential.reproduction import report

from koordsched.api.kinds import kind_of
from koordsched.api.validation import validate
from koordsched.config import load_config_text

FOLDER = Path(__file__).parents[2] / "recorded"
RECORDINGS = {recording.name: recording for file in sorted(FOLDER.glob("*.jsonl")) for recording in load(file)}
EPOCH = 1_767_225_600  # 2026-01-01T00:00:00Z


@pytest.mark.parametrize("name", RECORDINGS)
def test_ours_decides_as_koordinators_scheduler_did(name: str) -> None:
    differing = [report(case) for case in replay(RECORDINGS[name]) if case.differences]
    assert not differing, f"{len(differing)} pods differ, the first of them:\n{differing[0]}"
