# How hints are told, also by who knows them without merging.

cdef str summary_of(str name, hints)
