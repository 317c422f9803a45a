# The dry run of preemption on all rows at once. Order of pods, disruption budgets: pod_index.pxd.

from libc.stdint cimport int32_t, int64_t, uint8_t

from koordsched._core.pod_index cimport LOG_ROWS, IndexedPod, PodIndex
from koordsched._core.removal_filter cimport RemovalFilter
from koordsched._core.table cimport LogReader, NodeTable, Request, UndoneTurn

cdef enum:
    FITS = 0          # DryRun.code: the preemptor fits once all pods of lower priority are gone; > 0: the code of filter_fit even then
    NO_VICTIM = -1    # the row has no possible victim
    ABSENT = -2       # the row holds no node, or is not known yet
    OVER_LIMIT = -3   # the possible victims of the row do not release what has to be released
    REFUSED = -4      # amounts fit once all pods of lower priority are gone, but another filter refuses the row even then
    UNKNOWN = -5      # amounts fit then; one of the other filters does not know what it would say
    UNASKED = -6      # amounts fit then; the other filters have not been asked yet
    MOST_IDS = 30     # resource ids of a request: as many as a reason code of filter_fit has bits for; and of what has to be released

cdef struct Rank:  # how a row's victims compare: the smaller the better, a field decides where all before it are equal
    int32_t violations      # victims whose eviction violates a disruption budget
    int32_t highest         # highest priority of a victim
    int64_t total           # sum over victims of priority + 2^31
    int32_t count           # victims
    int32_t of_daemon_sets  # victims that can run on no other row
    double age              # minus the start time, in seconds, of the oldest victim of the highest priority

cdef struct LowerPods:  # pods[begin:end] of a row: those of lower priority than the preemptor's, the most important first
    IndexedPod* pods
    Py_ssize_t begin
    Py_ssize_t end
    Py_ssize_t evicted      # the possible victims among pods[evicted:end] are evicted

cdef class DryRun:
    cdef readonly PodIndex index        # the possible victims
    cdef readonly PodIndex nominated    # pods that count on their row if their priority is not lower
    cdef readonly int32_t priority      # of the preemptor
    cdef readonly int32_t group         # of the possible victims
    cdef readonly Request request       # of the preemptor
    cdef readonly tuple others          # RemovalFilters that are asked besides comparing amounts, in this order
    cdef LogReader log                  # up to which place in the table's log the rows are true
    cdef int64_t index_position, nominated_position, index_generation, nominated_generation
    cdef Py_ssize_t capacity
    cdef int32_t[::1] code              # [row]; what follows means something where it is FITS
    cdef int32_t[::1] refusal           # [row] where `code` is REFUSED: the code of the other filter that refuses; [0] without others
    cdef int32_t[::1] refused_by        # [row] likewise: that filter's place among the others
    cdef Rank* rank                     # [row]; where `code` is UNASKED a bound: no victims of the row have a lower one
    cdef int64_t[MOST_IDS] most         # of each resource of the request, the most that a pod had when all rows were begun with
    # Of the row that is evaluated: whether evicting each pod violates a budget, whether it is a victim; what each budget still allows.
    cdef uint8_t[::1] violating, victim
    cdef int64_t[::1] left
    cdef LowerPods last                 # of the row that fitted last
    cdef int64_t[2 * MOST_IDS] free     # what is free of each resource; then what was released less what has to be
    # The request, and both indexes' amounts and priorities, as plain memory: half of the time (bench_preemption.py, "first attempt").
    # By _prepare.
    cdef Py_ssize_t width               # resources of the request
    cdef Py_ssize_t wide                # width and the resources that have to be released, which follow those of the request
    cdef int32_t[2 * MOST_IDS] ids
    cdef int64_t[2 * MOST_IDS] needed   # 0 of what has to be released
    cdef int64_t[2 * MOST_IDS] release  # 0 of the request
    cdef int32_t largest                # of the ids
    cdef const int64_t* amounts
    cdef const int64_t* nominated_amounts
    cdef Py_ssize_t stride, nominated_stride
    cdef const int32_t* priorities
    cdef const int32_t* nominated_priorities

    cdef int _prepare(self) except -1
    cdef void _expect(self, Py_ssize_t row) noexcept
    cdef int _row(self, Py_ssize_t row, bint ask) except -1
    cdef int32_t _fewest_victims(self) noexcept
    cdef void _bound(self, Py_ssize_t row, const LowerPods* lower, int32_t least) noexcept
    cdef int _ask(self, const int32_t[::1] rows) except -1
    cdef void _expect_others(self, Py_ssize_t row) noexcept
    cdef Py_ssize_t _least(self, const int32_t[::1] rows, const int32_t[::1] order) noexcept
    cdef bint _precedes(self, Py_ssize_t row, Py_ssize_t other, const int32_t[::1] order) noexcept
    cdef bint _evict_until_enough(self, LowerPods* lower, bint all_of_them) noexcept
    cdef bint _others_pass(self, Py_ssize_t row, LowerPods* lower) except -1
    cdef void _evict_down_to(self, LowerPods* lower, Py_ssize_t first) noexcept
    cdef bint _are_monotone(self) noexcept
    cdef bint _begin_others(self, Py_ssize_t row) except -1
    cdef void _remove(self, Py_ssize_t i) noexcept
    cdef void _put_back(self, Py_ssize_t i) noexcept
    cdef void _end_others(self) noexcept
    cdef int32_t _code_of_others(self, Py_ssize_t* place) noexcept
    cdef void _reserve_for_nominated(self, Py_ssize_t row) noexcept
    cdef LowerPods _lower_pods(self, Py_ssize_t row) noexcept
    cdef LowerPods _evict_all(self, Py_ssize_t row) noexcept
    cdef bint _removable(self, IndexedPod* pod) noexcept
    cdef int32_t _shortage(self) noexcept
    cdef void _begin_row(self, Py_ssize_t row) noexcept
    cdef void _begin_alone(self, Py_ssize_t row) noexcept
    cdef bint _fits(self) noexcept
    cdef void _shift(self, IndexedPod* pod, int sign) noexcept
    cdef bint _has_budgets(self, LowerPods lower) noexcept
    cdef void _find_violating(self, LowerPods lower) noexcept
    cdef void _reprieve(self, IndexedPod* pods, Py_ssize_t i) noexcept
    cdef int64_t _cost(self, LowerPods lower, const int64_t* held, const int64_t* unit, int64_t k) noexcept
    cdef void _sum_up(self, Py_ssize_t row, LowerPods lower) noexcept
