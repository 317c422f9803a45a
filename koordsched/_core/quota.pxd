# A tree of quotas: what each may use, asks for and uses (elasticquota.md §3, §5 and §6).
#
# A quota is a row, row 0 the root. Amounts are exact, in 10^-9 of a unit, as 128-bit integers: sums are rounded once, when they
# enter the calculation of runtimes, which is done in whole numbers: cpu in milli, everything else in units. All exact columns of a row
# and resource lie beside each other, since a pod touches few rows; what the calculation reads lies row beside row.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

cdef extern from *:
    """
    typedef __int128 koordsched_nano;
    """
    ctypedef long long nano_t "koordsched_nano"  # 128 bits, whatever is written here

cdef enum:
    # Exact columns. Those of pods and those that follow from them for ancestors:
    MAX = 0
    MIN = 1
    WEIGHT = 2             # as written; the calculation has it in `weight`
    SELF_REQUEST = 3       # of the quota's own pods, pending and assigned
    SELF_USED = 4          # of its own assigned pods
    SELF_FIXED_REQUEST = 5   # the same of non-preemptible pods
    SELF_FIXED_USED = 6
    CHILD_REQUEST = 7      # SELF_REQUEST and the children's LIMITED
    REQUEST = 8            # that, and at least MIN where the quota does not lend
    LIMITED = 9            # REQUEST, at most MAX
    USED = 10              # SELF_USED and the children's USED
    FIXED_REQUEST = 11     # SELF_FIXED_REQUEST and the children's FIXED_REQUEST, which no max limits
    FIXED_USED = 12
    ALLOCATED = 13         # SELF_USED and the children's GUARANTEED
    GUARANTEED = 14        # ALLOCATED, at least MIN
    CHILD_MIN = 15         # the children's MIN
    COLUMNS = 16

cdef struct Share:
    # What a row gets of whole devices, beyond whole units
    nano_t remainder
    int32_t rank
    int32_t row

cdef enum:
    # Bits of QuotaTree.has
    HAS_MAX = 1
    HAS_MIN = 2
    HAS_RUNTIME = 4  # `runtime` limits the quota

cdef enum:
    # Bits of QuotaTree.flag
    IS_ROW = 1        # the row is in use
    LENDS = 2
    IS_BUILT_IN = 4   # the default or the system quota
    WAITS = 8         # a pod was refused since growth was last reported
    GREW = 16         # there may be more room since growth was last reported

cdef class QuotaRequest:
    """What pods ask for, of the resources that the tree knows."""
    cdef Py_ssize_t count
    cdef int32_t* resource
    cdef nano_t* amount

cdef class QuotaPod:
    """A pod of a quota. Counted by the tree that it was added to."""
    cdef readonly Py_ssize_t row
    cdef readonly QuotaRequest request
    cdef readonly bint fixed         # non-preemptible
    cdef readonly bint assigned      # bound or reserved: it uses what it asks for
    cdef readonly bint counted       # added to the tree and not removed since

cdef class QuotaTree:
    cdef readonly bint scales_min         # enableMinQuotaScale
    cdef readonly bint guarantees         # ElasticQuotaGuaranteeUsage
    cdef readonly bint by_runtime         # enableRuntimeQuota: limits are runtimes, else max
    cdef readonly bint checks_parents     # enableCheckParentQuota
    cdef readonly bint built_ins_compete  # DEV-2 off
    cdef readonly frozenset whole_devices  # names of resources of which exactly what there is is shared out (DEV-8)
    cdef readonly Py_ssize_t capacity     # rows that there is room for
    cdef readonly Py_ssize_t width        # resources that there is room for
    cdef readonly dict resources          # number by name; cpu is 0
    cdef Py_ssize_t known                 # how many there are
    cdef readonly uint64_t fills          # how often the children of a quota were given their runtimes
    cdef readonly Py_ssize_t waiting      # rows with WAITS
    cdef readonly bint unsummed           # sums of ancestors have to be made anew: rows came, went or moved
    cdef nano_t* exact                    # [row][resource][column]
    # As the calculation has them, in whole numbers; the children of a quota are read one after the other, resource by resource.
    cdef int64_t* weight                  # [resource][row]
    cdef int64_t* wanted                  # [resource][row] LIMITED; UNKNOWN: to be rounded anew
    cdef int64_t* least                   # [resource][row] MIN
    cdef int64_t* scaled                  # [resource][row] the share of MIN that there is; UNKNOWN: all of it
    cdef int64_t* runtime                 # [resource][row]
    cdef uint8_t* has                     # [resource][row]
    cdef uint8_t* changed                 # [resource][row] of which resources the children's runtimes are not up to date
    cdef nano_t* total                    # [resource] of the nodes
    cdef uint8_t* any_max                 # [resource] whether a quota other than the built-in ones has a max
    cdef uint8_t* has_total               # [resource] whether nodes offer it
    cdef int32_t* parent                  # [row] -1: none (the root, and orphans)
    cdef uint8_t* flag                    # [row]
    cdef uint8_t* dirty                   # [row] whether any is `changed`
    cdef uint64_t* version                # [row] counts changes of its children's runtimes
    cdef bint any_dirty
    cdef bint any_grown
    cdef bint quiet                       # what is given back now is room for none
    cdef bint unordered                   # order and children have to be built anew
    cdef int32_t* order                   # rows, parents before children
    cdef readonly Py_ssize_t rows         # in use, as of the last time they were ordered
    cdef int32_t* first                   # [row] where its children begin in `child`; first[row + 1] is their end
    cdef int32_t* child
    cdef int32_t* hungry                  # scratch: rows
    cdef int64_t* poured                  # [row] scratch: a runtime while it is worked out
    cdef uint8_t* indivisible             # [resource] whether it is one of whole_devices
    cdef int32_t* rank                    # [row] which of two with equal remainders comes first
    cdef Share* shares                    # scratch: by place in hungry
    cdef int32_t top                      # no row from here on has been in use
    cdef list free_rows
    cdef dict arrays                      # what owns the memory of the pointers above, by name

    cdef nano_t* cell(self, Py_ssize_t row, Py_ssize_t k) noexcept nogil
    cdef int check(self, Py_ssize_t row) except -1
    cdef int make_room(self, Py_ssize_t capacity, Py_ssize_t width) except -1
    cdef void put_in_order(self) noexcept nogil
    cdef int add_delta(self, QuotaPod pod, int sign, bint used) except -1
    cdef void request_more(self, Py_ssize_t row, Py_ssize_t k, nano_t delta) noexcept nogil
    cdef void limit_request(self, Py_ssize_t row, Py_ssize_t k) noexcept nogil
    cdef void use_more(self, Py_ssize_t row, Py_ssize_t k, nano_t delta, bint fixed) noexcept nogil
    cdef void guarantee(self, Py_ssize_t row, Py_ssize_t k) noexcept nogil
    cdef void mark(self, Py_ssize_t row, Py_ssize_t k) noexcept nogil
    cdef int64_t asks(self, Py_ssize_t row, Py_ssize_t k) noexcept nogil
    cdef void sum_up(self, Py_ssize_t row) noexcept nogil
    cdef void bring_up_to_date(self) noexcept nogil
    cdef void fill(self, Py_ssize_t row) noexcept nogil
    cdef void fill_resource(self, Py_ssize_t row, Py_ssize_t k) noexcept nogil
    cdef void pour(self, Py_ssize_t k, int64_t left, int64_t weights, Py_ssize_t hungry) noexcept nogil
    cdef bint pour_whole_devices(self, Py_ssize_t k, int64_t left, Py_ssize_t hungry) noexcept nogil
    cdef bint any_has_max(self, Py_ssize_t k) noexcept nogil
    cdef void set_runtime(self, Py_ssize_t row, Py_ssize_t k, bint limits) noexcept nogil
    cdef void grew(self, Py_ssize_t row) noexcept nogil
    cdef bint is_over(self, Py_ssize_t row, Py_ssize_t k, nano_t added, int which) noexcept nogil
    cdef nano_t asked(self, QuotaPod pod, Py_ssize_t k, Py_ssize_t* place) noexcept nogil
    cdef Py_ssize_t next_exceeded(self, QuotaPod pod, Py_ssize_t row, int which, Py_ssize_t k) noexcept nogil
    cdef void refused(self, Py_ssize_t row) noexcept nogil
