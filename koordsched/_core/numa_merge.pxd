# Texts of hints, also for a merge that was found without merging.

cdef str summary_of(str name, hints)
