# Which amounts of a request a row has no room for, as one int32 a row.

cpdef enum:
    MAX_IDS = 30            # resource ids that a request may have here, "pods" included: bits 0..29
    UNRESOLVABLE = 1 << 30  # bit 30: some amount (not that of "pods") is more than the row would have when empty
