"""Which pods may use which reservations (reservation.md §7).

Owners of reservations are looked at once for each distinct specification of owners (`OwnerSpec`), which an index finds by what a pod must
have to match it: a label, a controller, a name. Pods that match the same specifications with the same affinity have one `Matcher`, which
knows the reservations that they match; it is the owner of their credits (`Cache.credits`).
"""

from __future__ import annotations

from enum import Enum
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from koordsched.api.core import Taint
from koordsched.api.koordinator.reading import Malformed
from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY, ReservationAffinity, reservation_affinity
from koordsched.api.koordinator.reservation_links import EXACT_MATCH, RESERVATION_IGNORED, exact_match, is_ignoring_reservations
from koordsched.api.selectors import LabelSelectorMatcher, SelectorError, label_selector_matcher, requirement_error, requirement_matches
from koordsched.cache.plugin_state import NAME, OWNER_NAME, OWNER_UID, UID, PodsWith
from koordsched.plugins.reservation.groups import members, put, take

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping

    from koordsched.api.core import NodeSelectorTerm, Pod, Toleration
    from koordsched.api.koordinator.reservations import ReservationOwner
    from koordsched.api.meta import LabelSelectorRequirement
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.plugin_state import Concerns, Need
    from koordsched.plugins.reservation.groups import Group
    from koordsched.plugins.reservation.info import ReservationInfo

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
METADATA_NAME = "metadata.name"
KEPT_OWNERS = 1024  # texts of owners of which it is kept what they say
KEY_BYTES = 16  # of the digest by which a specification is found: its text is longer


class OwnerSpec:
    """What the owners of some reservations are, equal for all of these: any of its items has to match, and all that is there of it.

    There may be as many as reservations, each with one: a dict of one costs more than all the rest of this.
    """

    __slots__ = ("_matchers", "_owners", "_reservations", "_selectors", "key")

    def __init__(self, key: bytes, owners: tuple[ReservationOwner, ...], selectors: tuple[LabelSelectorMatcher | None, ...]) -> None:
        """selectors: those of the owners, compiled."""
        self.key = key
        self._owners = owners
        self._selectors = selectors
        self._reservations: ReservationInfo | dict[str, ReservationInfo] | None = None  # several by uid
        self._matchers: dict[Matcher, None] | None = None

    @property
    def reservations(self) -> Collection[ReservationInfo]:
        """Return the reservations that have these owners."""
        found = self._reservations
        if found is None:
            return ()
        return found.values() if isinstance(found, dict) else (found,)

    def add(self, info: ReservationInfo) -> None:
        found = self._reservations
        if found is None or found is info:
            self._reservations = info
        elif isinstance(found, dict):
            found[info.uid] = info
        else:
            self._reservations = {found.uid: found, info.uid: info}

    def discard(self, info: ReservationInfo) -> None:
        found = self._reservations
        if isinstance(found, dict):
            found.pop(info.uid, None)
        elif found is info:
            self._reservations = None

    @property
    def matchers(self) -> Collection[Matcher]:
        """Return the matchers of pods that match these owners; but for those that name one reservation."""
        return self._matchers or ()

    def add_matcher(self, matcher: Matcher) -> None:
        if self._matchers is None:
            self._matchers = {}
        self._matchers[matcher] = None

    def discard_matcher(self, matcher: Matcher) -> None:
        if self._matchers is not None:
            self._matchers.pop(matcher, None)

    def matches(self, pod: Pod) -> bool:
        return any(_matches(owner, selector, pod) for owner, selector in zip(self._owners, self._selectors, strict=True))

    @property
    def needs(self) -> tuple[Need | None, ...]:
        """Return what a pod has to have one of to match; None among it where there is nothing that an index could find it by."""
        return tuple(dict.fromkeys(map(_need, self._owners, self._selectors)))

    @property
    def selectors(self) -> list[LabelSelectorMatcher]:
        """Return the label selectors of the items that have one."""
        return [selector for selector in self._selectors if selector is not None]


def _matches(owner: ReservationOwner, selector: LabelSelectorMatcher | None, pod: Pod) -> bool:
    meta = pod.metadata
    if selector is not None and not selector.matches(meta.labels):
        return False
    named, controller = owner.object, owner.controller
    if named is not None and not (
        named.uid in {"", meta.uid}
        and named.name in {"", meta.name}
        and named.namespace in {"", meta.namespace}
        and named.api_version in {"", "v1"}  # what pods are; an informer does not say so (D7)
    ):
        return False
    if controller is None:
        return True
    return controller.namespace in {"", meta.namespace} and any(
        controller.controller in {None, reference.controller}
        and controller.uid in {"", reference.uid}
        and controller.name in {"", reference.name}
        and controller.kind in {"", reference.kind}
        and controller.api_version in {"", reference.api_version}
        for reference in meta.owner_references
    )


def _need(owner: ReservationOwner, selector: LabelSelectorMatcher | None) -> Need | None:
    if owner.object is not None and owner.object.uid:
        return "", UID, owner.object.uid
    if owner.object is not None and owner.object.name:
        return "", NAME, owner.object.name
    if owner.controller is not None and owner.controller.uid:
        return "", OWNER_UID, owner.controller.uid
    if owner.controller is not None and owner.controller.name:
        return "", OWNER_NAME, owner.controller.name
    if selector is not None and selector.equal:
        return selector.equal[0]
    return None


def owner_spec(key: bytes, owners: tuple[ReservationOwner, ...]) -> OwnerSpec:
    """Compile a specification of owners. SelectorError."""
    selectors = []
    for i, owner in enumerate(owners):
        try:
            selectors.append(None if owner.label_selector is None else label_selector_matcher(owner.label_selector))
        except SelectorError as error:
            raise SelectorError(f"spec.owners[{i}].labelSelector: {error}") from None
    return OwnerSpec(key, owners, tuple(selectors))


class OwnerIndex:
    """The specifications of owners that any reservation has."""

    def __init__(self) -> None:
        self._specs: dict[bytes, OwnerSpec] = {}
        self._found: dict[int, tuple[tuple[ReservationOwner, ...], OwnerSpec]] = {}  # by the id of owners, held so that it stays theirs
        self._by_need: dict[Need | None, Group[OwnerSpec]] = {}
        self._others = 0  # how often something other than a label is needed

    def __len__(self) -> int:
        return len(self._specs)

    def add(self, owners: tuple[ReservationOwner, ...]) -> tuple[OwnerSpec, bool]:
        """Return the specification, and whether no reservation had it before. SelectorError."""
        same = self._found.get(id(owners))  # reservations of one template have one object
        if same is not None:
            return same[1], False
        key = blake2b(msgspec.json.encode(owners), digest_size=KEY_BYTES).digest()
        found = self._specs.get(key)
        if found is not None:
            if len(self._found) >= KEPT_OWNERS:
                self._found.clear()
            self._found[id(owners)] = owners, found
            return found, False
        found = self._specs[key] = owner_spec(key, owners)
        for need in found.needs:
            put(self._by_need, need, found)
            self._others += not _is_label(need)
        return found, True

    def drop(self, spec: OwnerSpec) -> None:
        """Forget a specification that no reservation has any more."""
        self._found.clear()
        del self._specs[spec.key]
        for need in spec.needs:
            take(self._by_need, need, spec)
            self._others -= not _is_label(need)

    def matching(self, pod: Pod) -> tuple[OwnerSpec, ...]:
        """Return the specifications that the pod matches. O(its labels and controllers, and the specifications that need one of these)."""
        by_need = self._by_need
        if not by_need:
            return ()
        found: list[OwnerSpec] = []
        for need in pod.metadata.labels.items():
            if need in by_need:
                found += members(by_need[need])
        if self._others:
            for offer in self._offers(pod):
                found += members(by_need.get(offer))
        if not found:
            return ()
        return tuple([spec for spec in dict.fromkeys(found) if spec.matches(pod)])

    @staticmethod
    def _offers(pod: Pod) -> Iterator[Need | None]:
        meta = pod.metadata
        yield None
        yield "", UID, meta.uid
        yield "", NAME, meta.name
        for owner in meta.owner_references:
            yield "", OWNER_UID, owner.uid
            yield "", OWNER_NAME, owner.name


def _is_label(need: Need | None) -> bool:
    return need is not None and need[0] != ""


def _any(_pod: PodInfo) -> bool:
    """Answer for pods that have what some of many specifications need: to sign them again is less work than to find out which match."""
    return True


def concerned_by(specs: Iterable[OwnerSpec]) -> Concerns:
    """Return which pods are signed differently when these specifications come or go."""
    of_any = tuple(specs)
    needs = {need for spec in of_any for need in spec.needs}

    def concerned(pod: PodInfo) -> bool:
        return any(spec.matches(pod.pod) for spec in of_any)

    known = {need for need in needs if need is not None}
    if len(known) < len(needs):
        return concerned
    return PodsWith(known, concerned if len(of_any) == 1 else _any)


class Outcome(Enum):
    """What becomes of a reservation whose owner a pod is."""

    MATCHED = 0
    NAME_UNMATCHED = 1
    AFFINITY_UNMATCHED = 2
    UNSCHEDULABLE = 3
    NOT_EXACT = 4
    TAINTED = 5


class Demand(NamedTuple):
    """What a pod asks of the reservations that it may own. amounts: those that have to be equal, by name in their order; None: absent."""

    affinity: ReservationAffinity | None
    exact: tuple[tuple[str, int | None], ...]
    ignores: bool

    @property
    def required(self) -> bool:
        return self.affinity is not None

    @property
    def name(self) -> str:
        return "" if self.affinity is None else self.affinity.name


NO_DEMAND = Demand(None, (), False)


def demand_of(pod: PodInfo) -> Demand:
    """Return what the pod asks of reservations. Malformed, SelectorError."""
    meta = pod.pod.metadata
    annotations = meta.annotations
    ignores = is_ignoring_reservations(meta.labels) if RESERVATION_IGNORED in meta.labels else False
    if RESERVATION_AFFINITY not in annotations and EXACT_MATCH not in annotations:
        return Demand(None, (), True) if ignores else NO_DEMAND
    affinity = reservation_affinity(annotations)
    if affinity is not None:
        _check(affinity)
    requests = pod.resources.requests
    exact = tuple((name, requests.get(name)) for name in exact_match(annotations))
    return Demand(affinity, exact, ignores)


def _check(affinity: ReservationAffinity) -> None:
    required = affinity.required_during_scheduling_ignored_during_execution
    for i, term in enumerate(() if required is None else required.reservation_selector_terms):
        for requirement in term.match_expressions:
            problem = requirement_error(requirement)
            if problem is not None:
                raise SelectorError(f"{RESERVATION_AFFINITY}: reservationSelectorTerms[{i}].matchExpressions: {problem}")


def demand_key(pod: PodInfo) -> Hashable:
    """Return what `demand_of` depends on."""
    meta = pod.pod.metadata
    annotations = meta.annotations
    exact = annotations.get(EXACT_MATCH)
    ignores = RESERVATION_IGNORED in meta.labels and is_ignoring_reservations(meta.labels)
    return annotations.get(RESERVATION_AFFINITY), exact, pod.resources if exact else None, ignores


class Classified(NamedTuple):
    """What becomes of one reservation for the pods of a matcher; taint: the first one that is not tolerated, as texts name it."""

    outcome: Outcome
    taint: str = ""


MATCHES = Classified(Outcome.MATCHED)


def classify(demand: Demand, reservation: ReservationInfo, node_labels: Mapping[str, str], *, runs: bool = False) -> Classified:
    """Return what becomes of a matchable reservation for a pod that is one of its owners: the first step that decides (§7).

    runs: the pod runs already, so that it does not matter whether the reservation takes new owners.
    """
    if demand.ignores:
        return MATCHES
    affinity = demand.affinity
    if affinity is not None and affinity.name:
        if affinity.name != reservation.name:
            return Classified(Outcome.NAME_UNMATCHED)
        return MATCHES if _matches_exactly(demand, reservation) else Classified(Outcome.NOT_EXACT)
    tolerations = () if affinity is None else affinity.tolerations
    if not runs and (reservation.unschedulable or reservation.terminating) and not _tolerates(tolerations, UNSCHEDULABLE_TAINT):
        return Classified(Outcome.UNSCHEDULABLE)
    if affinity is not None:
        for taint in reservation.taints:
            if not _tolerates(tolerations, taint):
                return Classified(Outcome.TAINTED, f"{{{taint.key}: {taint.value}}}")
        if not _selects(affinity, reservation, node_labels):
            return Classified(Outcome.AFFINITY_UNMATCHED)
    return MATCHES if _matches_exactly(demand, reservation) else Classified(Outcome.NOT_EXACT)


def _tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(
        toleration.effect in {"", taint.effect}
        and toleration.key in {"", taint.key}
        and (
            toleration.operator == "Exists" or (toleration.operator in {"", "Equal"} and toleration.key and toleration.value == taint.value)
        )
        for toleration in tolerations
    )


def _selects(affinity: ReservationAffinity, reservation: ReservationInfo, node_labels: Mapping[str, str]) -> bool:
    if not affinity.reservation_selector and affinity.required_during_scheduling_ignored_during_execution is None:
        return True
    labels = {**node_labels, **reservation.reservation.metadata.labels}
    if any(labels.get(key) != value for key, value in affinity.reservation_selector.items()):
        return False
    required = affinity.required_during_scheduling_ignored_during_execution
    return required is None or any(_term_selects(term, labels, reservation.name) for term in required.reservation_selector_terms)


def _term_selects(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return all(_holds(requirement, labels.get(requirement.key)) for requirement in term.match_expressions) and all(
        requirement.key == METADATA_NAME and _holds(requirement, name) for requirement in term.match_fields
    )


def _holds(requirement: LabelSelectorRequirement, value: str | None) -> bool:
    return requirement_matches(requirement.operator, requirement.values, value)


def _matches_exactly(demand: Demand, reservation: ReservationInfo) -> bool:
    for name, asked in demand.exact:
        has = reservation.allocatable.get(name)
        if asked is None and has is None:
            return True  # the names after it are not looked at
        if asked != has:
            return False
    return True


class Matcher:
    """Pods that match the same reservations: equal in which specifications of owners they match and in what they ask of reservations.

    credit_key: the name of their credits. error: why the pods' annotations cannot be read; they match nothing then.
    """

    __slots__ = ("credit_key", "demand", "error", "matched", "ordered", "specs", "version")

    def __init__(self, credit_key: str, specs: tuple[OwnerSpec, ...], demand: Demand, error: str = "") -> None:
        self.credit_key = credit_key
        self.specs = specs
        self.demand = demand
        self.error = error
        self.matched: dict[str, ReservationInfo] = {}  # by uid
        self.ordered = 0  # how many of these have an order
        self.version = 0  # counts changes of `matched`


def matcher_of(credit_key: str, specs: tuple[OwnerSpec, ...], pod: PodInfo) -> Matcher:
    try:
        return Matcher(credit_key, specs, demand_of(pod))
    except (Malformed, SelectorError) as error:
        return Matcher(credit_key, (), NO_DEMAND, str(error))
