"""All extenders of a configuration, in the order in which they are asked: those that must answer first, ignorable ones after them.

Filter asks one after the other, each about what the ones before it left; prioritize asks all at once. An ignorable extender that fails
counts as not being there. Reference: schedule_one.go and framework/preemption of Kubernetes v1.35.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from koordsched.api.core import Node, Pod
from koordsched.api.kinds import POD
from koordsched.cluster.apiserver.settings import ConnectError
from koordsched.cluster.port import ClusterError, Ref
from koordsched.framework.handle import EXTENDER, ExtenderError, SettingsError, Victims
from koordsched.framework.status import Code, Status
from koordsched.framework.status import error as error_status
from koordsched.log import get_logger
from koordsched.scheduler.extenders.asking import ExtenderAnswer, ExtenderQuestion
from koordsched.scheduler.extenders.extender import Extender
from koordsched.scheduler.extenders.wire import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.cluster.port import Cluster
    from koordsched.config.types import ExtenderConfig
    from koordsched.scheduler.extenders.wire import ExtenderVictims, FilteredNodes

log = get_logger(__name__)

SCALE = 10  # an extender's scores end at 10, a plugin's at 100
LEFT_OUT = 'node(s) were left out by extender "{name}"'


class ExtenderChain:
    """The extenders of one scheduler."""

    def __init__(self, extenders: Sequence[Extender], cache: Cache, cluster: Cluster) -> None:
        self._cluster = cluster
        self._extenders = sorted(extenders, key=lambda extender: extender.ignorable)
        self._cache = cache
        self._choosing = [extender for extender in self._extenders if extender.config.filter_verb or extender.config.prioritize_verb]
        self._binders = [extender for extender in self._extenders if extender.config.bind_verb]
        self._preempting = [extender for extender in self._extenders if extender.config.preempt_verb]
        self._failing: set[tuple[str, str]] = set()  # (extender, verb) whose failure has been logged since it last went well
        self.prioritizing = 0  # requests for scores under way

    @classmethod
    def of(cls, configs: Sequence[ExtenderConfig], cache: Cache, cluster: Cluster) -> ExtenderChain:
        """Make the extenders of a configuration. SettingsError."""
        try:
            return cls([Extender(config, f"extenders[{i}]") for i, config in enumerate(configs)], cache, cluster)
        except ConnectError as mistake:
            raise SettingsError(str(mistake)) from None

    @property
    def choosing(self) -> bool:
        """Whether any extender filters or prioritizes."""
        return bool(self._choosing)

    # Filter and prioritize

    def wants(self, pod: PodInfo) -> bool:
        """Answer whether some extender filters or prioritizes nodes for this pod."""
        return any(extender.wants(pod.pod) for extender in self._choosing)

    async def ask(self, pod: PodInfo, question: ExtenderQuestion) -> ExtenderAnswer:
        """Ask about the nominated node alone, and if it does not remain about all nodes. ExtenderError.

        An extender that fails on the nominated node leaves it one node among the others.
        """
        if question.nominated is not None:
            try:
                answer = await self.filter(pod.pod, [question.nominated])
            except ExtenderError as error:
                log.warning("an extender failed on the nominated node", pod=pod.key, err=str(error))
            else:
                if answer.remaining:
                    return answer
        answer = await self.filter(pod.pod, question.nodes)
        if len(answer.remaining) <= 1:
            return answer  # there is nothing to choose
        remaining = set(answer.remaining)
        scores = await self.prioritize(pod.pod, [node for node in question.nodes if node.metadata.name in remaining])
        return replace(answer, scores=scores)

    async def filter(self, pod: Pod, nodes: Sequence[Node]) -> ExtenderAnswer:
        """Ask which of the nodes remain. ExtenderError."""
        remaining = {node.metadata.name: node for node in nodes}
        refused: dict[str, Status] = {}
        for extender in self._choosing:
            if not remaining:
                break
            if not extender.config.filter_verb or not extender.wants(pod):
                continue
            try:
                answer = await extender.filter(pod, list(remaining.values()))
            except ExtenderError as error:
                self._fail_or_ignore(extender, "filter", error)
                continue
            self._went_well(extender, "filter")
            kept = {name: remaining[name] for name in dict.fromkeys(answer.remaining)}
            refused |= {name: _refusal(extender, answer, name) for name in remaining if name not in kept}
            remaining = kept
        return ExtenderAnswer(list(remaining), refused)

    async def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, int]:
        """Ask for what is to be added to the nodes' totals, by name. An extender that fails adds nothing."""
        asked = [extender for extender in self._choosing if extender.config.prioritize_verb and extender.wants(pod)]
        total: dict[str, int] = {}
        for scores in await asyncio.gather(*(self._scores(extender, pod, nodes) for extender in asked)):
            for name, score in scores.items():
                total[name] = total.get(name, 0) + score
        return total

    async def _scores(self, extender: Extender, pod: Pod, nodes: Sequence[Node]) -> dict[str, int]:
        self.prioritizing += 1
        try:
            scores = await extender.prioritize(pod, nodes)
        except ExtenderError as error:
            self._ignore(extender, "prioritize", error)
            return {}
        finally:
            self.prioritizing -= 1
        self._went_well(extender, "prioritize")
        return {name: score * extender.config.weight * SCALE for name, score in scores.items()}

    # Bind

    def may_bind(self, pod: PodInfo) -> bool:
        """Answer whether an extender takes part in binding the pod."""
        return any(extender.wants(pod.pod) for extender in self._binders)

    async def bind(self, pod: PodInfo, node: str) -> tuple[bool, Status | None]:
        """Return whether an extender is the one that binds the pod, and what went wrong then; else the Bind plugins bind it."""
        for extender in self._binders:
            if not extender.wants(pod.pod):
                continue
            try:
                await extender.bind(pod.pod, node)
            except ExtenderError as failure:
                if extender.ignorable:
                    self._ignore(extender, "bind", failure)
                    continue
                # It may have bound the pod and failed to say so; room that is taken must not be given away again.
                return True, None if await self._is_bound(pod, node) else error_status(str(failure))
            self._went_well(extender, "bind")
            return True, None
        return False, None

    async def _is_bound(self, pod: PodInfo, node: str) -> bool:
        meta = pod.pod.metadata
        try:
            found = await self._cluster.get(Ref(POD, meta.namespace, meta.name))
        except ClusterError as failure:
            log.warning("it is not known whether an extender bound a pod", pod=pod.key, err=failure.message)
            return False
        return isinstance(found, Pod) and found.metadata.uid == meta.uid and found.spec.node_name == node

    # Preemption (koordsched.framework.handle.PreemptionExtenders)

    def wants_preemption(self, pod: PodInfo) -> bool:
        return any(extender.wants(pod.pod) for extender in self._preempting)

    async def preempt(self, pod: PodInfo, victims: Mapping[str, Victims]) -> dict[str, Victims]:
        candidates = dict(victims)
        for extender in self._preempting:
            if not candidates:
                break
            if not extender.wants(pod.pod):
                continue
            try:
                chosen = await extender.preempt(pod.pod, candidates)
                candidates = self._with_victims(extender, chosen)
            except ExtenderError as error:
                self._fail_or_ignore(extender, "preempt", error)
                continue
            self._went_well(extender, "preempt")
        return candidates

    def _with_victims(self, extender: Extender, chosen: Mapping[str, ExtenderVictims]) -> dict[str, Victims]:
        found = {}
        for name, choice in chosen.items():
            if choice.uids:
                found[name] = Victims(tuple(self._victim(extender, name, uid) for uid in choice.uids), choice.pdb_violations)
            elif not extender.ignorable:
                raise ExtenderError(f'extender "{extender.name}": expected at least one victim pod on node "{quoted(name)}"')
        return found

    def _victim(self, extender: Extender, node: str, uid: str) -> PodInfo:
        there = self._cache.node(node)
        victim = there.pods.get(uid) if there is not None else None
        if victim is None:
            raise ExtenderError(
                f"extender: {extender.name} claims to preempt pod (UID: {quoted(uid)}) on node: {quoted(node)}, "
                "but the pod is not found on that node"
            )
        return victim

    async def close(self) -> None:
        """Close all connections."""
        for extender in self._extenders:
            await extender.close()

    # Failures

    def _fail_or_ignore(self, extender: Extender, verb: str, error: ExtenderError) -> None:
        if not extender.ignorable:
            raise error
        self._ignore(extender, verb, error)

    def _ignore(self, extender: Extender, verb: str, error: ExtenderError) -> None:
        """Log once that an extender fails, until it answers again: it may be asked for every pod."""
        if (extender.name, verb) not in self._failing:
            self._failing.add((extender.name, verb))
            log.warning("an extender fails and is ignored until it answers again", extender=extender.name, verb=verb, err=str(error))

    def _went_well(self, extender: Extender, verb: str) -> None:
        self._failing.discard((extender.name, verb))


def _refusal(extender: Extender, answer: FilteredNodes, name: str) -> Status:
    """Say why the node does not remain. Kubernetes v1.35 gives no reason where the extender gives none."""
    if name in answer.unresolvable:
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (answer.unresolvable[name],), EXTENDER)
    if name in answer.failed:
        return Status(Code.UNSCHEDULABLE, (answer.failed[name],), EXTENDER)
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (LEFT_OUT.format(name=extender.name),), EXTENDER)
