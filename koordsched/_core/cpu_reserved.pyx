"""Which reservations of a row have the CPUs that a pod asks for: what Reserve would do with each (nodenumaresource.md §12).

On nodes with a NUMA policy the plugin is asked itself, since there all plugins with resources in NUMA nodes have a say.
"""

from libc.stdint cimport int32_t

from koordsched._core.cpu_accumulator cimport CpuRequest
from koordsched._core.numa cimport NUMA_NONE, NumaRequest, NumaTable, index_of
from koordsched._core.numa_zones cimport PASS, Zones, agree

cdef enum:
    OF_RESERVATION = 1 << 16  # set in codes of what a reservation lacks, for pods that demand one

RESERVED_CODE = OF_RESERVATION


cdef class LeftCpus:

    def __init__(self, cpus, int exclusive, *, bint restricted):
        self.cpus = cpus
        self.exclusive = exclusive
        self.restricted = restricted


cdef class ReservedCpus(ReservedSource):

    def __init__(
        self, NumaTable table not None, NumaRequest request not None, int exclusive, strategy_of, list infos not None, dict nodes not None,
        dict given not None, dict known not None, compile_left, list texts not None, *, bint demanded
    ):
        self.table = table
        self.request = request
        self.exclusive = exclusive
        self.strategy_of = strategy_of
        self.infos = infos
        self.nodes = nodes
        self.given = given
        self.known = known
        self.compile_left = compile_left
        self.texts = texts
        self.demanded = demanded
        self._requests = {}

    cdef bint holds(self, uid) except -1:
        return uid in self.given

    cdef LeftCpus left(self, uid):
        """Return what a reservation has left that was given something."""
        found = self.known.get(uid)
        if found is None:
            found = self.known[uid] = self.compile_left(uid)
        return <LeftCpus?> found

    cdef int begin(self) except -1:
        self._row = -1
        return 0

    cdef int _look_at(self, Py_ssize_t row) except -1:
        cdef Zones zones
        if row == self._row:
            return 0
        self.table.nodes.check_row(row)
        self._is_known = agree(self.table, self.request, index_of(self.table, row), &zones) == PASS and zones.numa_policy == NUMA_NONE
        self._binds = self._is_known and zones.bind
        self._node = self._cpus = self._asked = None
        if self._binds:
            self._node = self.nodes.get(self.infos[row].name)
            self._cpus = None if self._node is None else self._node.cpus
            if self._cpus is None:
                self._is_known = False
            else:
                self._asked = self._request_on(self._node, &zones)
        self._row = row
        return 0

    cdef bint knows(self, Py_ssize_t row, uid) except -1:
        self._look_at(row)
        return self._is_known

    cdef int show(self, Py_ssize_t row, uid) except -1:
        return self._move(row, uid, True)

    cdef int hide(self, Py_ssize_t row, uid) except -1:
        return self._move(row, uid, False)

    cdef int _move(self, Py_ssize_t row, uid, bint shown) except -1:
        """Let a reservation hold what it has left, or no longer."""
        cdef LeftCpus left
        self._look_at(row)
        if self._binds and uid in self.given:
            left = self.left(uid)
            if left.cpus and shown:
                self._cpus.add(left.cpus, left.exclusive)
            elif left.cpus:
                self._cpus.remove(left.cpus, left.exclusive)
        return 0

    cdef int32_t refusal(self, Py_ssize_t row, uid) except -1:
        cdef LeftCpus left = None
        self._look_at(row)
        if not self._binds:
            return 0
        reserved, preferred = self._node.reserved, 0
        if uid is not None and uid in self.given:
            left = self.left(uid)
            free = self._cpus.free()
            preferred = left.cpus & free
            if left.restricted and left.cpus:
                reserved |= free & ~preferred
        text = self._cpus.shortage(self._asked, reserved, preferred)
        if not text:
            return 0
        return self._code(text) | (OF_RESERVATION if left is not None and self.demanded else 0)

    cdef CpuRequest _request_on(self, node, const Zones* zones):
        """Return what the pod asks of the node's CPUs. Which of them it is given has no bearing where no policy is required."""
        cdef int strategy = self.strategy_of(node) if zones.required else 0
        key = (zones.policy, zones.required, strategy)
        found = self._requests.get(key)
        if found is None:
            found = self._requests[key] = CpuRequest(
                zones.cpus, zones.policy, required=zones.required, exclusive=self.exclusive, strategy=strategy
            )
        return found

    cdef int32_t _code(self, str text) except -1:
        if text not in self.texts:
            self.texts.append(text)
        return <int32_t> self.texts.index(text) + 1
