"""What is wrong with quotas' objects, reported where their author looks: log, an event on the object, a counter; once each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.kinds import ELASTIC_QUOTA
from koordsched.cluster.event_series import EventText
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koordsched.api.koordinator.quotas import ElasticQuota
    from koordsched.framework.handle import Handle
    from koordsched.plugins.elasticquota.manager import Quota, QuotaManager

log = get_logger(__name__)

INVALID_QUOTA_EVENT = "InvalidElasticQuota"
IN_OBJECT, IN_TREE, IN_TOTAL = "object", "tree", "total"
PLACES = (IN_OBJECT, IN_TREE, IN_TOTAL)


class QuotaProblems:
    """The mistakes that are known, by object: in it, in its place in the tree, and in what it says that the tree has."""

    def __init__(self, handle: Handle, quotas: Mapping[str, Quota]) -> None:
        """quotas: those of all trees, by name, to be read."""
        self._handle = handle
        self._quotas = quotas
        self._known: dict[tuple[str, str, str], tuple[str, ...]] = {}  # by name and namespace, and where they were found

    def of(self, quota: Quota) -> tuple[str, ...]:
        """Return what is wrong with the quota's object."""
        quota.manager.up_to_date()
        namespace = "" if quota.obj is None else quota.obj.metadata.namespace
        return tuple([text for where in PLACES for text in self._known.get((quota.name, namespace, where), ())])

    def report(self, obj: ElasticQuota, problems: list[str], where: str = IN_OBJECT) -> None:
        """Take over all mistakes of one kind; report those that are new. where: one of PLACES."""
        name, namespace = obj.metadata.name, obj.metadata.namespace
        known = self._known.get((name, namespace, where), ())
        if known == tuple(problems):
            return
        if problems:
            self._known[name, namespace, where] = tuple(problems)
        else:
            del self._known[name, namespace, where]
        news = [problem for problem in problems if problem not in known]
        for problem in news:
            log.warning("an ElasticQuota is not right", quota=f"{namespace}/{name}", problem=problem)
        if news:
            self._handle.malformed_object(ELASTIC_QUOTA.kind)
            self._handle.event_on(obj, EventText("Warning", INVALID_QUOTA_EVENT, "Scheduling", "; ".join(news)))

    def forget(self, obj: ElasticQuota) -> None:
        """Forget the mistakes of an object that is gone."""
        for where in PLACES:
            self.report(obj, [], where)

    def report_places(self, manager: QuotaManager, quotas: Iterable[Quota]) -> None:
        """Report what is wrong with these quotas as parents and children."""
        for quota in quotas:
            if quota.obj is not None and quota is not manager.root:
                self.report(quota.obj, list(self._of_place(manager, quota)), IN_TREE)

    def _of_place(self, manager: QuotaManager, quota: Quota) -> Iterable[str]:
        parent = quota.definition.parent
        if quota.name in manager.circles:
            yield f"parent {parent}: the quota is its own ancestor, so it gets what it asks for up to its min"
        elif parent not in manager.quotas:
            elsewhere = self._quotas.get(parent)
            where = "does not exist" if elsewhere is None else f"is in the tree {elsewhere.manager.tree_id!r}"
            yield f"parent {parent}: {where}, so the quota gets what it asks for up to its min"
        own, together = quota.definition.min, dict[str, int]()
        for child in manager.written_children(quota.name):
            for resource, least in child.definition.min.items():
                together[resource] = together.get(resource, 0) + least
        for resource in sorted(together):
            if together[resource] > own.get(resource, 0):
                yield f"spec.min[{resource}]: the children's min is more together"
