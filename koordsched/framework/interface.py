"""The contract between the framework and a plugin: one abstract class an extension point, as in kube-scheduler (framework.md §2.1).

A plugin is a class with a `name` that inherits from the interfaces of its points. None means success everywhere. Filter and Score exist
twice: a columnar plugin answers for many nodes in one call (`FilterNodesPlugin`, `ScoreNodesPlugin`), a plain one for one node at a time
(`FilterPlugin`, `ScorePlugin`); the framework asks it about each node (`evaluation_plan`).

Exact incremental evaluation rests on three promises of a plugin that filters or scores:

1. `sign(pod)`, or `signs`, covers all that its PreFilter, Filter, PreScore, Score and hints read of the pod. A plugin that begins to
   read more of pods that were signed before reports that to `Cache.signatures`.
2. `reads` names all kinds of change of a node row after which its answer for that row may differ.
3. Anything else that its answer depends on is in `version(pod)` (Score and PreScore: `score_version`): when that value differs, its
   PreFilter runs again and this plugin alone is asked about every row again.

A plugin that makes no promise (neither `signs` nor a `sign` of its own) is asked about every node for every pod: right, only slower.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from koordsched._core.change import NodeChange
from koordsched.config import extension_points
from koordsched.framework.status import Code, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from koordsched._core.pod_index import PodIndex
    from koordsched._core.removal_filter import RemovalFilter
    from koordsched._core.reserved_source import ReservedSource
    from koordsched._core.table import Request
    from koordsched.api.core import Pod
    from koordsched.api.kinds import Kind
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo, Nodes
    from koordsched.cluster.event_series import EventText
    from koordsched.config.extension_points import ExtensionPoint
    from koordsched.framework.cycle_state import CycleState, MetadataChanges
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.queue.events import EventHint
    from koordsched.queue.queued_pod import QueuedPodInfo

Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]
Scores = NDArray[np.int64]
Rows = NDArray[np.int32]

MAX_NODE_SCORE = 100
RESIZE_GATE = "ResizePod"
"""The feature gate with which ResizePodPlugins are asked."""


class _Unsignable(Enum):
    UNSIGNABLE = 0


UNSIGNABLE = _Unsignable.UNSIGNABLE


class Normalize(Enum):
    """How raw scores become 0..100 over the feasible nodes. The three fixed ways are kept up to date incrementally."""

    NONE = 0  # raw scores are 0..100 already
    DEFAULT = 1  # 100 * s / max; all 0 when max is 0
    DEFAULT_REVERSE = 2  # 100 - 100 * s / max; all 100 when max is 0
    CUSTOM = 3  # the plugin's normalize_scores


class Plugin(ABC):
    """Base of all plugins."""

    extension_point: ClassVar[ExtensionPoint]
    """Of each interface below: the entry of `config.extension_points` at which its plugins stand."""
    name: str
    kinds: Sequence[Kind] = ()
    """Kinds of objects that the plugin brings: files, scenarios and simulations then know them too. It watches one by `Handle.informer`."""
    late_kinds: Sequence[Kind] = ()
    """Watched kinds that matter only to the pods that `needs_late_kinds` says: after a start, others are decided about before they are
    known (`scheduler.late_lists`)."""
    signs: Sequence[str] = ()
    """Attributes of a PodInfo, such as "pod.spec.tolerations", for a plugin that reads nothing else of a pod: read once for all plugins
    that name them. A plugin that has to work out what it reads overrides `sign` instead."""
    versions_of_nodes: bool = False
    """Whether versions depend on nodes alone, not on the pods on them: such a plugin has nothing to do with whose view is shown."""

    def sign(self, pod: PodInfo) -> Hashable:
        """Return all that this plugin reads of the pod, or UNSIGNABLE. Pods with equal signatures get equal answers."""
        return attrgetter(*self.signs)(pod) if self.signs else UNSIGNABLE

    def needs_late_kinds(self, pod: PodInfo) -> bool:
        """Answer whether what is decided about the pod depends on `late_kinds`. Asked of every pod during a start: keep it O(1)."""
        return bool(self.late_kinds)

    def reads_rows_alone(self, pod: PodInfo) -> bool:
        """Answer of a pod that has a version whether what is said of a row depends on no pod of another row, as long as the version stays.

        Then nothing has to be hidden of other rows while columns of the pod are brought up to date.
        """
        return self.versions_of_nodes

    def version(self, pod: PodInfo) -> Hashable:
        """Return what the answers depend on besides the row and the signature. Called once a cycle, for every pod: keep it O(1)."""
        return None

    def score_version(self, pod: PodInfo) -> Hashable:
        """Return the same for PreScore and Score alone; by default `version`. Called when the pod's nodes are about to be ranked."""
        return self.version(pod)

    def has_version(self, pod: PodInfo) -> bool:
        """Answer whether `version` can ever differ for pods of this signature. Asked once a shape; no: `version` is not called for it."""
        return True

    def has_score_version(self, pod: PodInfo) -> bool:
        """Answer the same of `score_version`."""
        return self.has_version(pod)

    def prepare(self, pod: PodInfo) -> Generator[None, None, object]:
        """Do in steps of about a millisecond what the first pod of its kind costs at once; return what has to be held for that to last.

        For questions beside the scheduling loop (`scheduler.suggestions`): other things happen between two steps, cycles included. The
        answers are the same without it.
        """
        yield from ()
        return None

    def events_to_register(self) -> Sequence[EventHint] | None:
        """Return the events that may help a pod this plugin refused. None: every event, always Queue; empty: only the 5-minute flush.

        The flush leaves pods alone that PreEnqueue keeps out: a plugin that registers nothing has to activate those itself.
        """
        return None


class PreEnqueuePlugin(Plugin):
    extension_point = extension_points.PRE_ENQUEUE

    @abstractmethod
    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Refuse to let the pod into the active queue (gate it) by any Status."""


class QueueSortPlugin(Plugin):
    extension_point = extension_points.QUEUE_SORT

    @abstractmethod
    def sort_key(self, info: QueuedPodInfo) -> tuple[float, ...]:
        """Return a key: pods with smaller keys are scheduled first. Read when the pod enters a queue."""


class PreFilterResult(msgspec.Struct, frozen=True):
    """Restrict the cycle to these nodes (names); None: all."""

    node_names: frozenset[str] | None = None


class PreFilterPlugin(Plugin):
    extension_point = extension_points.PRE_FILTER

    @abstractmethod
    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        """Prepare the cycle. SKIP turns this plugin's Filter off. What is written to state must not be changed later: it is shared by all
        pods of the shape until the version changes."""


class AdmissionPlugin(Plugin):
    """Stands at preFilter and decides about the pod alone, not about nodes: is its gang complete, has its quota room?

    It is asked per pod before any column is touched, and its answer is kept in no shape: pods of 1,000 gangs share their columns if they
    are equal otherwise. A refused pod waits under `admission_key` until the plugin announces a change there (`Handle.announce`).
    """

    extension_point = extension_points.PRE_FILTER
    before_pre_filter: bool = False
    """Whether it stands before all PreFilter plugins (Koordinator's BeforePreFilter), else at its place in their order."""
    others_may_preempt: bool = False
    """Whether PostFilter plugins that know nothing of the refusal may evict for pods that this plugin refuses, as in the reference."""

    @abstractmethod
    def admit(self, pod: PodInfo) -> Status | None:
        """Refuse the pod by a Status of PreFilter, or let it pass: None, or SKIP for a pod that does not concern the plugin.

        Decides, but takes nothing (that is Reserve's): the queue asks too, before it moves a pod that waits. O(1), no await.
        """

    def admit_together(self, pods: Sequence[PodInfo]) -> tuple[int, Status] | None:
        """Refuse pods of a group that are placed together: which of them is the first for which there is no room beside those before it.

        None: there is room for all, or that shows only when each has been admitted and reserved. Asked before any of them is placed.
        """
        return None

    @abstractmethod
    def admission_key(self, pod: PodInfo) -> Hashable | None:
        """Name what the answer depends on besides the pod: its gang or quota. None: nothing that could be announced.

        When another name becomes true of pods that wait, the plugin reports that to `Cache.signatures`.
        """

    def sign_admission(self, pod: PodInfo) -> Hashable:
        """Return all that `admit` reads of the pod besides its key, its priority and what its shape is made of; () for nothing.

        Pods that are equal in all of these are asked about once and move one at a time. UNSIGNABLE: the pod is like no other.
        """
        return UNSIGNABLE

    def events_to_register(self) -> Sequence[EventHint] | None:
        """Return no events: what may help is announced. A plugin that also learns of something else by events returns these."""
        return ()


class RestrictNodesPlugin(Plugin):
    """Stands at preFilter and restricts pods to nodes apart from their shape: pods that differ in nothing else share its columns.

    A PreFilterPlugin that names nodes restricts all pods of a shape alike, and needs a shape for each restriction. This role is for what
    differs from pod to pod: a hint, the topology domain that a gang was given.
    """

    extension_point = extension_points.PRE_FILTER
    reads: NodeChange = NodeChange.ALL
    """All kinds of change of a node after which the rows may be other ones."""

    @abstractmethod
    def restriction_key(self, pod: PodInfo) -> Hashable | Status | None:
        """Return all that the restriction depends on of the pod; None: this plugin does not restrict it. Asked when the pod is signed.

        Pods of equal keys are restricted alike, and if they fit nowhere they wait together. A Status fails every attempt with that error,
        before PreFilter.
        """

    def restriction_version(self, pod: PodInfo) -> Hashable:
        """Return what else it depends on, besides `reads`. Called once a cycle for each restricted pod: keep it O(1)."""
        return None

    @abstractmethod
    def restrict(self, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Rows | Status | None:
        """Return the nodes that the pod may go to: names, or rows out of nodes.rows, ascending; None: all of them.

        Called once for each key, and again after changes of `reads` or the version. A Status refuses the pod as PreFilter does.
        """


class FindOneNodePlugin(Plugin):
    """Stands at preFilter and decides on the only node that a pod may go to. The first such plugin of a profile is asked, no other."""

    extension_point = extension_points.PRE_FILTER

    @abstractmethod
    def find_one_node(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> str | Status:
        """Return a node's name, SKIP to leave the choice to the cycle, or why the pod is refused or fails.

        nodes: those to which the pod is restricted. Called once an attempt, after PreFilter; the node has to pass all filters.
        """


class PreferNodesPlugin(Plugin):
    """Stands at preFilter and names nodes that come first for a pod. The first such plugin of a profile is asked, no other."""

    extension_point = extension_points.PRE_FILTER

    @abstractmethod
    def prefer_nodes(self, state: CycleState, pod: PodInfo) -> Sequence[str] | Status:
        """Return names, the best first: the first one that the pod may go to and that passes all filters gets it, whatever others score.

        SKIP, or no name of such a node: the cycle goes on as usual. Called once an attempt, after PreFilter.
        """


class FilterNodesPlugin(Plugin):
    """A columnar filter."""

    extension_point = extension_points.FILTER
    reads: NodeChange = NodeChange.ALL
    follows_pods: bool = False
    """Whether pods on a node matter to it by state of its own alone, which follows simulations (`PodFollower`): `reads` need not name
    USAGE then, and pods that hold nothing of that state cost it nothing."""

    @abstractmethod
    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        """Return an int32 per row of nodes.rows: 0 passes, anything > 0 is a reason that `explain` turns into a Status. None: all pass."""

    @abstractmethod
    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        """Return the refusal that a code stands for."""

    def fit_request(self, state: CycleState, pod: PodInfo) -> Request | None:
        """Return the request if the answer for every row is exactly `_core.fit.filter_fit` of it; None if it is another one.

        Preemption then works out all rows at once.
        """
        return None

    def affected_by_removals(self, state: CycleState, pod: PodInfo, nodes: Nodes, codes: Codes) -> Flags | None:
        """Return on which rows the answer could be another one if any of the pods that run there were gone; None: on all.

        codes: the answers as they are. Only asked of filters for which pods on nodes matter; preemption tries such rows one by one.
        """
        return None

    def removal_filter(self, state: CycleState, pod: PodInfo, victims: PodIndex) -> RemovalFilter | None:
        """Return the kernel that answers as this filter would if pods of the index were removed, so that preemption works out all rows at
        once; None: it tries rows one by one. Only for filters to which pods that are nominated do not matter, beside what they request.
        """
        return None


class FilterPlugin(Plugin):
    """A filter that looks at one node at a time."""

    extension_point = extension_points.FILTER
    reads: NodeChange = NodeChange.ALL

    @abstractmethod
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None: ...


class PostFilterResult(msgspec.Struct, frozen=True):
    """Nominate a node; "" clears the nomination. Returning None instead leaves it alone."""

    nominated_node_name: str


class PostFilterPlugin(Plugin):
    extension_point = extension_points.POST_FILTER
    post_filters_reservations: bool = False
    """Whether it is run for reserve pods too. Most plugins look for the pod among those of the cluster (reservation.md D14)."""

    @abstractmethod
    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status | None]:
        """Try to make the pod schedulable after no node was feasible. Success (None) stops; Unschedulable goes on to the next plugin.

        The cluster may change while it awaits something; the scheduler waits for it before it tries another pod.
        """

    def may_help(self, pod: PodInfo, diagnosis: Diagnosis) -> bool:
        """Answer whether `post_filter` would do anything for a pod that failed so. The queue calls this before it moves pods: be quick.

        In doubt True, which costs an attempt; a wrong False leaves pods waiting.
        """
        return True

    def expected_refusal(self, pod: PodInfo, diagnosis: Diagnosis) -> Status | None:
        """Return the refusal that `post_filter` would answer to a pod that failed so, without doing anything; None: not known."""
        return None


class FailureEventPlugin(Plugin):
    """Has something to add, in an event of its own, where a pod could not be scheduled (frameworkext.md §4.1: what Koordinator registers
    with the dispatcher of errors).

    All else that a failure means has one place, the scheduler's failure path: nomination, queue, event, condition.
    """

    extension_point = extension_points.POST_FILTER

    @abstractmethod
    def failure_event(self, pod: Pod, message: str) -> EventText | None:
        """Return an event about the pod, None for none. message: what its condition says. Called at each failed attempt: be quick."""


class PreScorePlugin(Plugin):
    extension_point = extension_points.PRE_SCORE
    skips_by_feasible: bool = False  # whether SKIP depends on which nodes are feasible

    @abstractmethod
    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Prepare scoring. SKIP turns this plugin's Score off until its score_version differs.

        nodes are the feasible ones; a plugin whose outcome depends on which ones they are sets `depends_on_feasible`, and if it may SKIP
        for some and not for others `skips_by_feasible`.
        """


class ScoreNodesPlugin(Plugin):
    """A columnar scorer."""

    extension_point = extension_points.SCORE
    reads: NodeChange = NodeChange.ALL
    normalize: Normalize = Normalize.NONE
    normalizes_reservations: bool = True
    """Whether raw scores of reserve pods are normalised like those of pods; if not, they are 0..100 already."""
    depends_on_feasible: bool = False

    def depends_on_feasible_for(self, pod: PodInfo) -> bool:
        """Answer whether it does for pods of this signature. Asked once a shape, where `depends_on_feasible` is set."""
        return True

    @abstractmethod
    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores | None:
        """Return a raw int64 score per row of nodes.rows. None: all are 0."""

    def normalize_scores(self, state: CycleState, pod: PodInfo, nodes: Nodes, scores: Scores) -> Scores:
        """With Normalize.CUSTOM: return 0..100 for all feasible rows at once; scores are theirs."""
        return scores


class ScorePlugin(Plugin):
    """A scorer that looks at one node at a time."""

    extension_point = extension_points.SCORE
    reads: NodeChange = NodeChange.ALL
    normalize: Normalize = Normalize.NONE
    depends_on_feasible: bool = False

    def depends_on_feasible_for(self, pod: PodInfo) -> bool:
        """Answer whether it does for pods of this signature. Asked once a shape, where `depends_on_feasible` is set."""
        return True

    @abstractmethod
    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int | Status: ...

    def normalize_scores(self, state: CycleState, pod: PodInfo, nodes: Nodes, scores: Scores) -> Scores:
        return scores


class ReservePlugin(Plugin):
    extension_point = extension_points.RESERVE

    @abstractmethod
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None: ...

    @abstractmethod
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Undo reserve. Must not fail, and is called even if reserve was not."""


class ResizePodPlugin(Plugin):
    """Stands at reserve and says what a pod will really hold, where only the chosen node decides that (frameworkext.md §4 item 8). Asked
    after Reserve of all plugins, with the feature gate ResizePod only.

    Here these are reserve pods: a Reservation holds the amounts of the devices that it was given, whatever it has asked for.
    """

    extension_point = extension_points.RESERVE

    @abstractmethod
    def resize_pod(self, state: CycleState, pod: PodInfo, node_name: str) -> Mapping[str, int] | Status | None:
        """Return the amounts of resources that are others than what the pod asks for (cpu in milli), or why it cannot have its node."""


class ReservationFilterPlugin(Plugin):
    """Allocates something that reservations may hold beside amounts (CPUs, devices), and says which of them has what a pod needs.

    A reservation is named by the uid of its placeholder. What nominates reservations asks (`framework.reservation_filters`), about one node
    at a time or, of plugins with a `reserved_source`, about all rows in one call, and only where the answer matters: about strangers
    nothing is asked (Koordinator's roles ReservationFilter and ReservationScore).
    """

    extension_point = extension_points.RESERVE

    @abstractmethod
    def allocates_for(self, pod: PodInfo) -> bool:
        """Answer whether pods like this one are allocated something."""

    @abstractmethod
    def is_held_by(self, reservation: str) -> bool:
        """Answer whether the reservation was given something."""

    @abstractmethod
    def lending(self, reservation: str | None, others: Sequence[str]) -> AbstractContextManager[None]:
        """Let of these reservations of one node, which the pod matches, only the named one hold nothing; None: none of them.

        Within a view that hides them all, as in Filter, and outside of views, as in Reserve. Plugins lend together: one may ask another.
        """

    @abstractmethod
    def filter_reservation(self, state: CycleState, pod: PodInfo, node_name: str, reservation: str | None) -> Status | None:
        """Return why Reserve would fail on the node if the pod was given this reservation, which lends; None as the reservation: none.

        Takes nothing. state is for this question alone: what plugins before this one have written there is theirs for this reservation.
        """

    def reserved_source(self, state: CycleState, pod: PodInfo) -> ReservedSource | None:
        """Return what kernels ask instead of `filter_reservation`, with the same answers; None: it is asked about each.

        For a pod that this plugin allocates for, after all PreFilters: in Filter within the pod's view, and in Reserve.
        """
        return None

    def explain_reserved(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        """Return the refusal that a code of the pod's source stands for."""
        raise LookupError(f"{self.name}: code {code} of a source of reservations, of which there is none")

    def score_reservation(self, state: CycleState, pod: PodInfo, node_name: str, reservation: str) -> int:
        """Return how well a reservation suits that passes and lends; scores of one plugin are compared with each other, 0 the least."""
        return 0


class PermitPlugin(Plugin):
    extension_point = extension_points.PERMIT

    @abstractmethod
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        """Approve (None), refuse, or WAIT for at most the returned seconds."""


class PreBindPlugin(Plugin):
    extension_point = extension_points.PRE_BIND
    pre_binds_reservations: bool = False
    """Whether it is run for reserve pods too (Koordinator's PreBindReservation): what it annotates is written to the Reservation."""
    takes_time: bool = True
    """Whether pre_bind waits for others, so that the pod's nomination is worth a request; not if all it does is to note annotations.
    Such a pre_bind is cancelled when the scheduler stops, and the pod unreserved."""

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """SKIP: pre_bind has nothing to do for this pod."""
        return None

    @abstractmethod
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None: ...


class PreBindPatchPlugin(Plugin):
    """Stands at preBind and writes what the PreBind plugins have noted (`framework.cycle_state`), after all of them, object by object."""

    extension_point = extension_points.PRE_BIND
    leaves_to_binding: bool = False
    """Whether annotations of the pod may go with its binding instead, where all Bind plugins write them and nothing is written to other
    objects: one request less a pod, and nothing is left on a pod that was not bound."""

    @abstractmethod
    async def patch(self, changes: MetadataChanges) -> Status | None:
        """Write an object's annotations and labels in one request, or SKIP to leave them to the next such plugin. An error undoes the pod's
        placement, and nothing else is written."""


class CreditPlugin(Plugin):
    """Owns the credits of a scheduler: says whose capacity a pod may use (`Cache.credits`, reservation.md §6). A profile has one at most.

    Pods of an owner are evaluated as if its placeholders were not there. What a pod then takes of them the plugin takes off its
    placeholders in Reserve, as the first plugin there (`Cache.set_pod` with smaller requests, or `remove_pod`): the others reserve on
    what is left.
    """

    extension_point = extension_points.PRE_FILTER

    @abstractmethod
    def owner_of(self, pod: PodInfo) -> Hashable | None:
        """Return the owner whose capacity the pod may use besides what is free, None without one. Part of the signature: pods of two
        owners never share a shape. When it changes for a pod, report that to `Cache.signatures`."""

    def alike(self, owner: Hashable) -> Hashable | None:
        """Name what owners have in common whose pods, equal otherwise, get the same answers about every row without placeholders of theirs.

        Columns go round among such owners while these have few placeholders (`Shapes.shared`): for each one this plugin's PreFilter runs
        again, and the rows of its placeholders are asked about again. None: not among them.
        """
        return None

    def may_share(self, owner: Hashable) -> bool:
        """Answer whether this plugin's answers about a row depend on nothing but that row now, for an owner that is alike to others."""
        return True

    def names_placeholder(self, owner: Hashable) -> bool:
        """Answer whether pods of this owner, alike to others, name the placeholder that they want: they may go to its node alone."""
        return False

    def named_placeholder(self, owner: Hashable) -> str | None:
        """Return the uid of the one that they name, None while there is none, or more than one. Asked once an attempt: keep it O(1)."""
        return None

    def fits_named(self, state: CycleState, pod: PodInfo, owner: Hashable, row: int) -> bool:
        """Answer whether a pod fits on the row of the placeholder that it names, all amounts compared, with what that holds.

        It holds nothing but amounts, and nothing is hidden. Yes: this plugin's Reserve finds in the state what it reads.
        """
        return False


class NextPod(msgspec.Struct, frozen=True):
    """The pod that comes next. first: the pod of its group that was popped, whose attempts and time of the first one it carries on."""

    pod: PodInfo
    first: PodInfo


class NextPodPlugin(Plugin):
    """Says which pod comes next, before the queue is asked (frameworkext.md §4 item 1). Any plugin that is enabled somewhere may be one.

    Of several profiles the first plugin that names a pod is followed.
    """

    extension_point = extension_points.PRE_ENQUEUE

    @abstractmethod
    def next_pod(self) -> NextPod | None:
        """Return the pod to schedule now, wherever it waits, or None for the queue's first. Asked before every pod: be quick.

        A pod that is not in the queue, is being deleted, or is kept out of the active queue by another plugin's PreEnqueue, is left out.
        """


class GangTurn(msgspec.Struct, frozen=True):
    """What a gang wants of the turn of its group: `needed` of these members (keys: namespace/name), which are tried in this order.

    strict: the first one that cannot be placed ends the turn; else the next one is tried. Members that are not pending are left out.
    """

    name: str
    members: tuple[str, ...]
    needed: int
    strict: bool = True


class GroupRefusal(msgspec.Struct, frozen=True):
    """Why the turn of a group was undone."""

    gang: str
    member: str  # the key of the one that could not be placed; "": too few could be tried
    message: str
    placed: int  # members that had a node until then
    plugins: frozenset[str] = frozenset()  # that refused the member: what helps against them helps the group
    diagnosis: Diagnosis | None = None  # of the popped pod, where there is no plan for the group but evictions may make one possible
    quoted: str = ""  # the message as other members quote it, "" for as it is


class Question(msgspec.Struct, frozen=True):
    """What is asked about a member of a group. topology_key: the layer of the network in which the group has to gather, "" for none."""

    group: str
    topology_key: str = ""


class GangNeeds(msgspec.Struct, frozen=True):
    """What the gang of a pod wants. gang: its name; namespace: of its objects.

    minimum: how many members it needs in all; present: how many of them there are that may be placed or are; needed: how many have to be
    placed together still; pending: the keys of those that may be. alone: it is in no group of gangs, and may go anywhere in the network.
    """

    gang: str
    namespace: str
    of_pod_group: bool
    minimum: int
    present: int
    needed: int
    pending: tuple[str, ...]
    alone: bool


class GroupTurnPlugin(Plugin):
    """Says which pods are placed together or not at all (coscheduling.md §4). Of a profile, the first enabled one is asked.

    A group that was refused waits for the events that this plugin registers: they have to cover all that may help any member.
    """

    extension_point = extension_points.PRE_ENQUEUE
    preempts: bool = False
    """Whether `preempts_for_groups` is to be asked at all: what it is asked about a group that waits costs something at each event."""

    @abstractmethod
    def group_turn(self, pod: PodInfo) -> Sequence[GangTurn] | None:
        """Return the gangs that have to be placed with this pod, which was popped; None: it goes alone.

        All or none of what the gangs need is placed, in one turn. Members beyond that stay in the queue and go alone.
        """

    def group_refused(self, pod: PodInfo, refusal: GroupRefusal) -> str:
        """Take note that the group of the popped pod was refused, and return why, for the members that lack nothing."""
        member = f'due to member pod "{refusal.member}" ' if refusal.member else ""
        return f'gang "{refusal.gang}" is rejected {member}with reason "{refusal.message}", {refusal.placed} placed before'

    def question_of(self, pod: PodInfo) -> Question | None:
        """Return what an explanation of this pod is about: its group, unless it goes alone (frameworkext.md §4.2)."""
        return None

    def needs_of(self, pod: PodInfo) -> GangNeeds | None:
        """Return what the gang of this pod wants; None: it has none, or goes alone, or nothing says what the gang wants."""
        return None

    def members_of(self, question: str) -> Sequence[str]:
        """Return the keys of all members of the group or gang of this id, wherever they are; none if there is none."""
        return ()

    def blocking_member(self, pod: PodInfo) -> str:
        """Return the key of the member without which the popped pod's group cannot be placed, since its turn was refused for it; "": none.

        As long as that member fits on no node, whatever pods of its own group are there, and `preempts_for_groups` says no of it, the group
        is not tried again.
        """
        return ""

    def preempts_for_groups(self, pod: PodInfo, diagnosis: Diagnosis) -> bool:
        """Answer whether `group_post_filter` might help a group of which this member fits nowhere; in doubt yes."""
        return False

    async def group_post_filter(
        self, pod: PodInfo, diagnosis: Diagnosis, members: Callable[[], Sequence[PodInfo]]
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Try to make room for all pending members or for none; the turn in which `pod` fitted nowhere is undone.

        The plugin nominates them but for `pod`, of which the nomination is returned, as by PostFilter. None as the status: success.
        """
        return None, Status(Code.UNSCHEDULABLE)

    def group_post_filtered(self, pod: PodInfo, message: str) -> str:
        """Return what the other members say of the attempt of `group_post_filter` for this pod, which ended with that message."""
        return f"preemption already attempted by {pod.key} with message {message}"


class BindPlugin(Plugin):
    extension_point = extension_points.BIND
    writes_annotations: bool = False
    """Whether its binding also writes the annotations that were left to it (`framework.cycle_state.annotations_of_binding`)."""

    @abstractmethod
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Bind the pod, or SKIP to leave it to the next bind plugin. Not asked about reserve pods."""


class BindReservationPlugin(Plugin):
    """Stands at bind and binds reserve pods, which exist in the scheduler alone: it gives their Reservations the node."""

    extension_point = extension_points.BIND

    @abstractmethod
    async def bind_reservation(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Bind the reserve pod, or SKIP to leave it to the next such plugin."""


class PostBindPlugin(Plugin):
    extension_point = extension_points.POST_BIND

    @abstractmethod
    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None: ...


def extension_points_of(plugin: type[Plugin]) -> frozenset[str]:
    """Return the names of the extension points whose interfaces the class inherits from."""
    return frozenset(base.__dict__["extension_point"].name for base in plugin.__mro__ if "extension_point" in base.__dict__)
