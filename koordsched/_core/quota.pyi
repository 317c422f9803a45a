from collections.abc import Mapping, Sequence
from typing import Final, Literal

ADMITTED: Final = 0
OVER_LIMIT: Final = 1
OVER_MIN: Final = 2

Refusal = Literal[0, 1, 2]

class QuotaRequest:
    """What pods ask for of a tree's resources, in nano-units by name; others are left out. Immutable, to be shared by equal pods.

    It does not learn of resources that the tree gets later.
    """

    def __init__(self, tree: QuotaTree, amounts: dict[str, int]) -> None: ...

class QuotaPod:
    """A pod of the quota at a row; fixed: it is non-preemptible. Counts from `QuotaTree.add` on."""

    row: int
    request: QuotaRequest
    fixed: bool
    assigned: bool
    counted: bool

    def __init__(self, row: int, request: QuotaRequest, *, fixed: bool) -> None: ...

class QuotaTree:
    """The quotas of one tree, with what their pods ask for and use. Row 0 is the root. Amounts are exact, in nano-units.

    scales_min: enableMinQuotaScale. guarantees: gate ElasticQuotaGuaranteeUsage. by_runtime: enableRuntimeQuota; else max limits.
    checks_parents: room in an ancestor is room for its descendants. built_ins_compete: elasticquota.md DEV-2 off. whole_devices: resources
    of which exactly what there is is shared out, by largest remainder (DEV-8).

    What follows from quotas, pods and total is brought up to date when it is read: sums along the paths of the pods that changed, runtimes
    of the children of quotas where something changed. O(quotas) after a change of quotas.
    """

    resources: Mapping[str, int]
    waiting: int
    guarantees: bool
    by_runtime: bool
    checks_parents: bool
    whole_devices: frozenset[str]
    rows: int
    fills: int
    capacity: int
    width: int

    def __init__(
        self,
        *,
        scales_min: bool = True,
        guarantees: bool = False,
        by_runtime: bool = True,
        checks_parents: bool = False,
        built_ins_compete: bool = False,
        whole_devices: frozenset[str] = ...,
    ) -> None: ...

    # Quotas

    def add_resource(self, name: str) -> None:
        """Make a column for a resource, unless there is one."""

    def add_quota(self) -> int:
        """Return a new row: no parent, no max, no min."""

    def remove_quota(self, row: int) -> None:
        """Forget a quota, whose pods must have been removed; its children are orphans then."""

    def set_quota(
        self, row: int, *, most: dict[str, int], least: dict[str, int], weight: dict[str, int], lends: bool, built_in: bool = False
    ) -> None:
        """Write what a quota's object says: max, min and the weight. Pods that are counted keep what they count as: where other resources
        have a max than before, remove them before and add them after, with a new `QuotaRequest`.
        """

    def link(self, parents: dict[int, int]) -> None:
        """Set the parents of these rows; -1 makes an orphan, which shares nothing and gets what it asks for up to its min.

        ValueError when a row is its own ancestor then.
        """

    def set_ranks(self, rows: list[int]) -> None:
        """Say which of two rows comes first where both have a claim on the last whole device; rows that are left out come first."""

    def set_total(self, amounts: dict[str, int]) -> None:
        """Write what there is, of all resources, the built-in quotas' use included. Names that are missing are offered nowhere."""

    # Pods

    def add(self, pod: QuotaPod) -> None:
        """Count what the pod asks for, of the resources that its quota's max names."""

    def assign(self, pod: QuotaPod) -> None:
        """Count it as used as well, if the pod is counted."""

    def unassign(self, pod: QuotaPod) -> None: ...
    def unassign_quietly(self, pod: QuotaPod) -> None:
        """Take back an assignment that was undone: it is no growth, since all is as it was before."""

    def remove(self, pod: QuotaPod) -> None:
        """Count the pod no longer; nothing if it is not."""

    # Room

    def admit(self, pod: QuotaPod) -> Refusal:
        """Answer whether the pod's quota has room for it: ADMITTED, OVER_LIMIT or OVER_MIN. A quota that has none waits for growth."""

    def full_ancestor(self, pod: QuotaPod) -> int:
        """Return the first ancestor from the parent upwards that has no room for the pod; -1: all have. The root is not asked."""

    def exceeded(self, pod: QuotaPod, row: int, refusal: int) -> list[str]:
        """Return the resources that a refusal by this row is about, sorted."""

    def wait(self, row: int) -> None:
        """Report the row's next growth, since a pod was refused for another reason."""

    def take_grown(self) -> Sequence[int]:
        """Return the rows that wait and may have more room than when a pod was refused. They wait no longer."""

    def over_used(self) -> list[int]:
        """Return the rows that use more than they may."""

    # Reading

    def refresh(self) -> None: ...
    def refresh_all(self) -> None:
        """Make all sums and runtimes anew, in one call."""

    def amounts(self, column: str, row: int) -> dict[str, int]:
        """Return the amounts of a column (max, min, used, ...) by resource: of max and min those that are stated, else those but 0."""

    def runtimes(self, row: int) -> dict[str, int]:
        """Return what limits the quota by runtime; empty for the root and the built-in quotas."""

    def take_changed(self) -> list[int]:
        """Return the rows whose sums or runtimes are others than at the last call; at the first one than 0 and no runtime."""

    def parent_of(self, row: int) -> int: ...
    def version_of(self, row: int) -> int:
        """Return how often the quota's children have been given runtimes."""
