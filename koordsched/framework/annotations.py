"""What plugins want written to a pod's annotations before it is bound: noted in the cycle's state, sent by one plugin in one patch.

A plugin notes what it has decided while the pod's PreBind runs (`annotate`); after PreBind of all plugins the framework hands everything to
the first `PreBindPatchPlugin` that does not skip (frameworkext.md §4 item 11). Later notes of one key replace earlier ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.framework.cycle_state import CycleState

Annotations = dict[str, str | None]
"""Values to write by key; None: the annotation is removed."""

NOTED = "framework/annotations"


def annotate(state: CycleState, changes: Mapping[str, str | None]) -> None:
    """Note annotations to write; called from `pre_bind`."""
    state.write(NOTED, {**(state.read(NOTED) or {}), **changes})


def noted_annotations(state: CycleState) -> Annotations:
    """Return what is to be written, {} when nothing is."""
    return state.read(NOTED) or {}
