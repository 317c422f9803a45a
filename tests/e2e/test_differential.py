"""The differential test: random pods on random clusters, decided by kube-scheduler and by us; nodes, scores and messages must be equal.

`KOORDSCHED_DIFFERENTIAL_CASES` (300) says how many, for a nightly run of thousands; `KOORDSCHED_DIFFERENTIAL_SEED` (1) which ones. A case
that differs is printed as a scenario with both schedulers' scores.
"""

from __future__ import annotations

import os

from support.controlplane.plane import ControlPlane
from support.differential.features import available
from support.differential.reproduction import report
from support.differential.trial import Plan, play

from koordsched.plugins import REGISTRY

SHOWN = 5


def test_kube_scheduler_and_ours_decide_alike(plane: ControlPlane) -> None:
    cases = int(os.environ.get("KOORDSCHED_DIFFERENTIAL_CASES", "300"))
    seed = int(os.environ.get("KOORDSCHED_DIFFERENTIAL_SEED", "1"))
    trial = play(plane, Plan(seed, cases, available(REGISTRY)))
    shown = "\n---\n".join(report(case) for case in trial.differing[:SHOWN])
    assert not trial.differing, f"{len(trial.differing)} of {cases} differ, the first of them:\n{shown}"
    assert trial.outcomes["bound"] >= cases // 5, trial.outcomes
    assert trial.outcomes["refused"] >= cases // 10, trial.outcomes
