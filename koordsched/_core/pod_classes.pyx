"""Pods by row and class: pods of which a selector reads the same are counted together."""

import numpy as np

cimport cython
cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memset

cnp.import_array()

cdef enum:
    MASK_BITS = 64  # requirements that are asked at once
    MOST_EMPTIED = 256  # classes without pods that are kept: simulations take pods away and put them back
    NO_FACT = -1

# No label key is a tuple.
NAMESPACE = ("namespace",)
TERMINATING = ("terminating",)


@cython.final
cdef class PodClass:

    def __init__(self):
        self.matching = ()


@cython.final
cdef class PodClasses:

    def __init__(self):
        self.numbers, self.by_facts = {}, {}
        self.free_facts, self.classes, self.free_classes, self.emptied = [], [], [], []
        self.uses = np.zeros(64, np.int32)

    def __dealloc__(self):
        cdef Py_ssize_t row
        for row in range(self.capacity):
            PyMem_Free(self.rows[row].classes)
        PyMem_Free(self.rows)
        PyMem_Free(self.scratch)

    def __len__(self):
        return self.living

    # Pods come and go

    def add(self, Py_ssize_t row, namespace, dict labels not None, bint terminating):
        cdef bytes facts
        cdef PodClass known
        cdef RowPods* pods
        cdef int32_t room
        self.reserve(row)
        facts = self.facts_of(namespace, labels, terminating, True)
        known = self.by_facts.get(facts)
        if known is None:
            known = self.new_class(facts)
        pods = &self.rows[row]
        if pods.count == pods.room:
            room = max(4, 2 * pods.room)
            pods.classes = <int32_t*> _resized(pods.classes, room * sizeof(int32_t))
            pods.room = room
        pods.classes[pods.count] = known.number
        pods.count += 1
        self.living += known.pods == 0
        known.pods += 1
        return known

    def remove(self, Py_ssize_t row, namespace, dict labels not None, bint terminating):
        cdef PodClass known = self.find(namespace, labels, terminating)
        cdef Py_ssize_t i = -1
        cdef RowPods* pods
        if known is not None and 0 <= row < self.capacity:
            pods = &self.rows[row]
            i = pods.count - 1  # the last that came is often the first to go
            while i >= 0 and pods.classes[i] != known.number:
                i -= 1
        if i < 0:
            raise LookupError(f"row {row} has no pod of namespace {namespace} with labels {labels}")
        pods.count -= 1
        pods.classes[i] = pods.classes[pods.count]
        known.pods -= 1
        if not known.pods:
            self.living -= 1
            self.emptied.append((known, namespace, labels, terminating))
            if len(self.emptied) > MOST_EMPTIED:
                self.end_emptied()
        return known

    # Reading

    def largest_numbers(self):
        return self.known_facts, len(self.classes)

    def find(self, namespace, dict labels not None, bint terminating):
        cdef bytes facts = self.facts_of(namespace, labels, terminating, False)
        return None if facts is None else self.by_facts.get(facts)

    def of_class(self, Py_ssize_t row, PodClass known not None):
        cdef Py_ssize_t i
        cdef int32_t found = 0
        for i in range(self.rows[row].count if 0 <= row < self.capacity else 0):
            found += self.rows[row].classes[i] == known.number
        return found

    def on_row(self, Py_ssize_t row):
        cdef Py_ssize_t i, k
        cdef PodClass known
        cdef const int32_t* facts
        named = {number: (key, value) for key, values in self.numbers.items() for value, number in values.items()}
        found = []
        for i in range(self.rows[row].count if 0 <= row < self.capacity else 0):
            known = self.classes[self.rows[row].classes[i]]
            facts = <const int32_t*> PyBytes_AS_STRING(known.facts)
            of_pod = dict([named[facts[k]] for k in range(_length(known.facts))])
            found.append((of_pod.pop(NAMESPACE), of_pod, of_pod.pop(TERMINATING, None) is not None))
        return found

    def count(self, list requirements not None, Py_ssize_t rows):
        cdef Py_ssize_t first, row
        cdef uint8_t[::1] verdict = np.ones(len(self.classes), np.uint8)
        cdef int32_t[::1] amounts
        answer = np.zeros(rows, np.int32)
        for first in range(0, len(requirements), MASK_BITS):
            if not self.match(requirements[first:first + MASK_BITS], verdict):
                return answer
        amounts = answer
        with nogil:
            for row in range(min(rows, self.capacity)):
                amounts[row] = _count(&self.rows[row], verdict)
        return answer

    cdef bint match(self, list requirements, uint8_t[::1] verdict) except -1:
        # Leave the verdict 1 where a class meets these requirements, too. False: no class does.
        cdef uint64_t[::1] mask = np.zeros(self.known_facts, np.uint64)  # [fact] the requirements that mean it
        cdef uint64_t bit = 1, asked = 0, without = 0
        cdef int32_t fact
        cdef PodClass known
        cdef Py_ssize_t number
        for key, values, absent in requirements:
            named = self.numbers.get(key, {})
            meant = list(named.values()) if values is None else [named[value] for value in values if value in named]
            if not meant and not absent:
                return False
            for fact in meant:
                mask[fact] |= bit
            asked |= bit
            if absent:
                without |= bit
            bit <<= 1
        for number in range(len(self.classes)):
            known = self.classes[number]
            if known is not None and (_meant(known.facts, mask) ^ without) != asked:
                verdict[number] = 0
        return True

    # Facts and classes

    cdef bytes facts_of(self, namespace, dict labels, bint terminating, bint create):
        # None: there is a fact that no pod has, and that was not to be created.
        cdef Py_ssize_t count = 0, most = len(labels) + 2
        if most > self.scratch_room:
            self.scratch = <int32_t*> _resized(self.scratch, 2 * most * sizeof(int32_t))
            self.scratch_room = 2 * most
        for key, value in labels.items():
            self.scratch[count] = self.fact(key, value, create)
            count += 1
        self.scratch[count] = self.fact(NAMESPACE, namespace, create)
        count += 1
        if terminating:
            self.scratch[count] = self.fact(TERMINATING, True, create)
            count += 1
        qsort(self.scratch, count, sizeof(int32_t), _compare)
        if self.scratch[0] == NO_FACT:
            return None
        return PyBytes_FromStringAndSize(<char*> self.scratch, count * sizeof(int32_t))

    cdef int32_t fact(self, key, value, bint create) except -2:
        cdef dict values = self.numbers.get(key)
        if values is None:
            if not create:
                return NO_FACT
            values = self.numbers[key] = {}
        found = values.get(value)
        if found is None:
            if not create:
                return NO_FACT
            found = values[value] = self.new_fact()
        return found

    cdef int32_t new_fact(self) except -1:
        cdef Py_ssize_t known = self.uses.shape[0]
        if self.free_facts:
            return self.free_facts.pop()
        if self.known_facts == known:
            longer = np.zeros(2 * known, np.int32)
            longer[:known] = self.uses
            self.uses = longer
        self.known_facts += 1
        return <int32_t> (self.known_facts - 1)

    cdef PodClass new_class(self, bytes facts):
        cdef PodClass made = PodClass()
        cdef const int32_t* fact = <const int32_t*> PyBytes_AS_STRING(facts)
        cdef Py_ssize_t i
        made.facts = facts
        if self.free_classes:
            made.number = self.free_classes.pop()
            self.classes[made.number] = made
        else:
            made.number = <int32_t> len(self.classes)
            self.classes.append(made)
        self.by_facts[facts] = made
        for i in range(_length(facts)):
            self.uses[fact[i]] += 1
        return made

    cdef int end_emptied(self) except -1:
        # End the older half of the classes that lost their last pod, but for those that have pods again.
        cdef PodClass known
        older, self.emptied = self.emptied[:MOST_EMPTIED // 2], self.emptied[MOST_EMPTIED // 2:]
        for known, namespace, labels, terminating in older:
            if not known.pods and self.classes[known.number] is known:
                self.end_class(known, namespace, labels, terminating)
        return 0

    cdef int end_class(self, PodClass ended, namespace, dict labels, bint terminating) except -1:
        del self.by_facts[ended.facts]
        self.classes[ended.number] = None
        self.free_classes.append(ended.number)
        for key, value in labels.items():
            self.end_use(key, value)
        self.end_use(NAMESPACE, namespace)
        if terminating:
            self.end_use(TERMINATING, True)
        return 0

    cdef int end_use(self, key, value) except -1:
        cdef dict values = self.numbers[key]
        cdef int32_t fact = values[value]
        self.uses[fact] -= 1
        if not self.uses[fact]:
            self.free_facts.append(fact)
            del values[value]
            if not values:
                del self.numbers[key]
        return 0

    cdef int reserve(self, Py_ssize_t row) except -1:
        cdef Py_ssize_t capacity
        if row < 0:
            raise IndexError(f"row {row}")
        if row >= self.capacity:
            capacity = max(64, 2 * self.capacity, row + 1)
            self.rows = <RowPods*> _resized(self.rows, capacity * sizeof(RowPods))
            memset(&self.rows[self.capacity], 0, (capacity - self.capacity) * sizeof(RowPods))
            self.capacity = capacity
        return 0


cdef inline Py_ssize_t _length(bytes facts) noexcept:
    return PyBytes_GET_SIZE(facts) // <Py_ssize_t> sizeof(int32_t)


cdef inline uint64_t _meant(bytes facts, const uint64_t[::1] mask) noexcept:
    """Return the requirements that mean a fact of these."""
    cdef const int32_t* fact = <const int32_t*> PyBytes_AS_STRING(facts)
    cdef uint64_t found = 0
    cdef Py_ssize_t i
    for i in range(_length(facts)):
        found |= mask[fact[i]]
    return found


cdef int32_t _count(const RowPods* pods, const uint8_t[::1] verdict) noexcept nogil:
    cdef int32_t found = 0, i
    for i in range(pods.count):
        found += verdict[pods.classes[i]]
    return found


cdef int _compare(const void* one, const void* other) noexcept nogil:
    return (<const int32_t*> one)[0] - (<const int32_t*> other)[0]


cdef void* _resized(void* memory, size_t size) except NULL:
    cdef void* found = PyMem_Realloc(memory, size)
    if found == NULL:
        raise MemoryError
    return found
