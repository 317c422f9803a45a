"""The cluster of the input, with its scheduler, played until the pod has had its attempt; then what is said of the pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.kinds import NODE, POD, RESERVATION
from koordsched.cluster.port import Ref
from koordsched.config.flag_table import Flags
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions, run_embedded
from koordsched.explain.group_changes import group_changes
from koordsched.explain.node_changes import node_changes
from koordsched.explain.trials import ALL_SCORES, CopyTrials, QuickTrials
from koordsched.scheduler.suggestions.explanation import PLACED, REJECTED, RUNNING, Explanation, of_pending, of_placed, suggested
from koordsched.scheduler.suggestions.pod_changes import ownerships, pod_changes, taints_of
from koordsched.scheduler.suggestions.search import smallest_changes
from koordsched.simulate.simulation import Simulation

if TYPE_CHECKING:
    from koordsched.config.types import SchedulerConfiguration
    from koordsched.scheduler.explanations.decision_log import SearchRecord
    from koordsched.simulate.workload import Workload

GIVE_UP_SECONDS = 30.0
"""Virtual seconds without a pod bound or deleted after which the cluster has come to rest: measurements of load stay fresh meanwhile."""


class PodQuestion(msgspec.Struct, frozen=True):
    """Which pod of which cluster. changes: whether what would let it run is looked for."""

    pod: str
    workload: Workload
    config: SchedulerConfiguration
    seed: int = 0
    changes: bool = True


class UnknownPod(Exception):
    """The input has no such pod."""


def explain(question: PodQuestion) -> Explanation:
    """Answer the question. UnknownPod; SettingsError."""
    options = EmbeddedOptions(
        config=question.config,
        flags=Flags(enable_network_topology_manager=True),  # as `simulate` has it
        seed=question.seed,
        lasting=True,
        measured=False,
        epoch=question.workload.epoch,
    )

    async def script(embedded: EmbeddedCluster) -> Explanation:
        question.workload.notes += embedded.notes()
        return await _explain(question, embedded)

    return run_embedded(options, script)


async def _explain(question: PodQuestion, embedded: EmbeddedCluster) -> Explanation:
    key, explanations = question.pod, embedded.scheduler.explanations
    kept: dict[str, SearchRecord] = {}
    explanations.decisions.kept = kept
    explanations.switches.filters, explanations.switches.top_scores = True, ALL_SCORES
    simulation = Simulation(question.workload, embedded, None)
    await simulation.play(GIVE_UP_SECONDS)
    if key in simulation.refused:
        return Explanation(pod=key, state=REJECTED, message=simulation.refused[key])
    namespace, _, name = key.partition("/")
    raw = await embedded.get(Ref(POD, namespace, name))
    stored = embedded.scheduler.pods.get(key)
    if raw is None or stored is None:
        raise UnknownPod(key)
    if node := raw["spec"].get("nodeName"):
        arrived = any(arrival.manifest.key == key for arrival in question.workload.arrivals)
        return of_placed(key, node, PLACED if arrived else RUNNING, kept.get(key))
    diagnosis = explanations.explainer.diagnose(key, stored)
    conditions = (raw.get("status") or {}).get("conditions") or ()
    said = next(
        (each.get("message", "") for each in conditions if each.get("type") == "PodScheduled" and each.get("status") == "False"), ""
    )
    found = of_pending(diagnosis, said)
    if not question.changes:
        return found
    members = explanations.explainer.pods_of(diagnosis.question)
    trials = CopyTrials(embedded, key, {key, *members})
    await trials.prepare()
    pending = len(trials.members)
    placed = len(trials.base.raws(POD))
    changes = [
        *group_changes(trials.body, trials.base, pending),
        *pod_changes(trials.body, map(taints_of, trials.base.raws(NODE)), list(embedded.scheduler.profiles), placed),
        *ownerships(trials.body, trials.base.raws(RESERVATION)),
        *node_changes(trials.body, trials.base, pending),
    ]
    queued = embedded.scheduler.queue.get(key)
    if queued is None:  # another scheduler is responsible for it: nothing is known of it here
        suggestions, count = await smallest_changes(trials, changes), trials.count
    else:
        body = {**trials.body, "metadata": {**trials.body["metadata"], "uid": queued.uid}}
        quick = QuickTrials(trials, embedded.scheduler.answers.columns(queued.pod_info, body))
        suggestions, count = await quick.confirmed(await smallest_changes(quick, changes)), quick.count
    shown = sorted(map(suggested, suggestions), key=lambda each: len(each.changes))
    return msgspec.structs.replace(found, changes=shown, left_out=trials.left_out, trials=count)
