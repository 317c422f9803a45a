"""Which reservations of a row have the CPUs and amounts in NUMA nodes that a pod asks for: what Reserve would do (nodenumaresource.md §12).

On nodes with a NUMA policy all plugins with resources in NUMA nodes have a say: the hints of one other come by a `NumaHintSource`. The
plugin is asked itself where there are more, or where hints are merged otherwise than `numa_joint` does, as under BestEffort.
"""

from libc.stdint cimport int32_t, uint64_t

from koordsched._core.cpu_accumulator cimport CpuRequest
from koordsched._core.hints cimport NumaView
from koordsched._core.numa cimport NUMA_NONE, NumaRequest, NumaScoring, NumaTable, index_of
from koordsched._core.numa_joint cimport is_strict
from koordsched._core.numa_joint import joint_affinity
from koordsched._core.numa_zones cimport PASS, Zones, agree
from koordsched._core.table cimport RESOURCE_CPU

cdef enum:
    OF_RESERVATION = 1 << 30  # set in codes of what a reservation lacks, for pods that demand one

RESERVED_CODE = OF_RESERVATION


cdef class LeftCpus:

    def __init__(self, cpus, int exclusive, *, bint restricted):
        self.cpus = cpus
        self.exclusive = exclusive
        self.restricted = restricted


cdef class ReservedCpus(ReservedSource):

    def __init__(
        self, NumaTable table not None, NumaRequest request not None, NumaScoring scoring not None, int exclusive, list infos not None,
        holdings not None, answers not None, *, bint demanded
    ):
        self.table = table
        self.request = request
        self.scoring = scoring
        self.exclusive = exclusive
        self.infos = infos
        self.holdings = holdings
        self.nodes = holdings.nodes
        self.given = holdings.given
        self.answers = answers
        self.others = answers.others
        self.demanded = demanded
        self._requests = {}

    cdef bint holds(self, uid) except -1:
        return uid in self.given

    cdef int begin(self) except -1:
        self._row = -1
        return 0

    cdef int _look_at(self, Py_ssize_t row) except -1:
        cdef Zones zones
        if row == self._row:
            return 0
        self.table.nodes.check_row(row)
        self._index = index_of(self.table, row)
        self._is_known = agree(self.table, self.request, self._index, &zones) == PASS
        self._aligns = self._is_known and zones.numa_policy != NUMA_NONE
        self._binds = self._is_known and zones.bind
        self._node = self._cpus = self._asked = None
        if self._aligns or self._binds:
            self._node = self.nodes.get(self.infos[row].name)
            self._cpus = None if self._node is None else self._node.cpus
        if self._aligns and (self._node is None or not self._node.zones or self.others > (1 if is_strict(&zones) else 0)):
            self._is_known = False
        if self._binds and self._cpus is None:
            self._is_known = False
        elif self._binds:
            self._asked = self._request_on(self._node, &zones)
        self._row = row
        return 0

    cdef bint knows(self, Py_ssize_t row, uid) except -1:
        self._look_at(row)
        return self._is_known

    cdef int show(self, Py_ssize_t row, uid) except -1:
        cdef LeftCpus left
        self._look_at(row)
        if uid not in self.given:
            return 0
        if self._aligns:
            self.holdings.show_left(uid)
        elif self._binds:
            left = self.holdings.compiled(uid)
            if left.cpus:
                self._cpus.add(left.cpus, left.exclusive)
        return 0

    cdef int hide(self, Py_ssize_t row, uid) except -1:
        cdef LeftCpus left
        self._look_at(row)
        if uid not in self.given:
            return 0
        if self._aligns:
            self.holdings.hide_left(uid)
        elif self._binds:
            left = self.holdings.compiled(uid)
            if left.cpus:
                self._cpus.remove(left.cpus, left.exclusive)
        return 0

    cdef int32_t refusal(self, Py_ssize_t row, uid, uint64_t* numa) except -1:
        cdef LeftCpus left = None
        cdef bint only = False
        self._look_at(row)
        if not self._binds and not self._aligns:
            return 0
        reserved, preferred = self._node.reserved, 0
        if uid is not None and uid in self.given:
            left = self.holdings.compiled(uid)
        if left is not None and left.cpus:
            free = 0 if self._cpus is None else self._cpus.free()
            preferred = left.cpus & free
            only = left.restricted
            if only:
                reserved |= free & ~preferred
        if not self._aligns:
            refusal = self._cpus.shortage(self._asked, reserved, preferred, None)
        elif only:
            cells = self.table.save_usage(self._index)
            self.table.set_counts(self._index, self._node.counts((), ~preferred))
            try:
                refusal = self._unaligned(row, uid, reserved, preferred, numa)
            finally:
                self.table.restore_usage(cells)
        else:
            refusal = self._unaligned(row, uid, reserved, preferred, numa)
        if not refusal:
            return 0
        return <int32_t> self.answers.number(refusal) | (OF_RESERVATION if left is not None and self.demanded else 0)

    cdef object _unaligned(self, Py_ssize_t row, uid, reserved, preferred, uint64_t* numa):
        """Return why the pod cannot have its part of NUMA nodes that all resources come from, None if it can, and write which they are."""
        cdef dict by_zone = None
        cdef NumaView view = NumaView(self.table, self.request, self._index, self.scoring)
        if self.others:
            code, ids = joint_affinity(self.table, self.request, self.scoring, row, self.answers.hints(uid))
            if code:
                return self.answers.explain(code)
            numa[0] = ids
            zones = ids or None
        else:
            merged = view.affinity()
            if not merged.admitted:
                return self.answers.unmerged(merged)
            zones = merged.mask
        if zones is not None:
            split = view.distribute(zones)
            if split.short or split.lacks_cpus:
                return self.answers.short(split)
            by_zone = {zone: amounts.get(RESOURCE_CPU, 0) for zone, amounts in split.amounts.items()}
        return self._cpus.shortage(self._asked, reserved, preferred, by_zone) if self._binds else None

    cdef CpuRequest _request_on(self, node, const Zones* zones):
        """Return what the pod asks of the node's CPUs. Which of them it is given has no bearing where no policy is required."""
        cdef int strategy = self.answers.strategy_on(node) if zones.required else 0
        key = (zones.policy, zones.required, strategy)
        found = self._requests.get(key)
        if found is None:
            found = self._requests[key] = CpuRequest(
                zones.cpus, zones.policy, required=zones.required, exclusive=self.exclusive, strategy=strategy
            )
        return found
