# What a code says: a NumaReason in its lowest DETAIL_SHIFT bits; above them, for INSUFFICIENT and UNSATISFIED, a bit for each resource of
# the request that is concerned (in the order of its ids; the last bit also stands for all that follow), for UNALIGNED a text's place, for
# HINTS_REFUSED and TRIAL_REFUSED the code of the NumaHintSource.
