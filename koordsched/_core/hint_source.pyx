"""Sources of NUMA hints: what `numa_joint` asks besides the zones. The base, and one whose answers are given row by row."""

from array import array

import numpy as np

from libc.stdint cimport int32_t, uint64_t


cdef class NumaHintSource:

    cdef int begin(self) except -1:
        return 0

    cdef void find(self, Py_ssize_t row, bint narrowest, FoundHints* found) noexcept nogil:
        found.code = 0
        found.named = 0
        found.count = 0

    cdef bint is_monotone(self, Py_ssize_t row) noexcept nogil:
        return False

    cdef int32_t refusal(self, Py_ssize_t row, uint64_t mask) noexcept nogil:
        return 0


cdef class HintTable(NumaHintSource):

    def __init__(self, names, answers):
        self.names = tuple(names)
        if len(self.names) > MAX_HINT_NAMES:
            raise ValueError(f"{len(self.names)} resources: one source has hints for {MAX_HINT_NAMES} at most")
        rows = max(answers, default=-1) + 1
        self.code, self.named = np.zeros(rows, np.int32), np.zeros(rows, np.uint32)
        self.first, self.count = np.zeros(rows, np.int32), np.zeros(rows, np.int32)
        self.refused_first, self.refused_count = np.zeros(rows, np.int32), np.zeros(rows, np.int32)
        masks, scores, refused, codes = [], [], [], []
        for row, answer in answers.items():
            if answer.named and not answer.code and not answer.hints:
                raise ValueError(f"row {row}: a resource without any set of NUMA nodes takes a code")
            if len(answer.hints) > MAX_HINTS:
                raise ValueError(f"row {row}: {len(answer.hints)} hints, {MAX_HINTS} at most")
            self.code[row] = answer.code
            self.named[row] = sum([1 << i for i, name in enumerate(self.names) if name in answer.named])
            self.first[row], self.count[row] = len(masks), len(answer.hints)
            for mask, score in answer.hints:
                masks.append(mask)
                scores.append(score)
            self.refused_first[row], self.refused_count[row] = len(refused), len(answer.refused)
            for mask, code in answer.refused.items():
                refused.append(mask)
                codes.append(code)
        self.mask, self.score = array("Q", masks), array("q", scores)
        self.refused_mask, self.refused_code = array("Q", refused), array("i", codes)

    cdef void find(self, Py_ssize_t row, bint narrowest, FoundHints* found) noexcept nogil:
        cdef Py_ssize_t i
        found.code = 0
        found.named = 0
        found.count = 0
        if row >= self.code.shape[0]:
            return
        found.code = self.code[row]
        found.named = self.named[row]
        found.count = self.count[row]
        for i in range(found.count):
            found.mask[i] = self.mask[self.first[row] + i]
            found.score[i] = self.score[self.first[row] + i]

    cdef int32_t refusal(self, Py_ssize_t row, uint64_t mask) noexcept nogil:
        cdef Py_ssize_t i
        if row >= self.code.shape[0]:
            return 0
        for i in range(self.refused_first[row], self.refused_first[row] + self.refused_count[row]):
            if self.refused_mask[i] == mask:
                return self.refused_code[i]
        return 0
