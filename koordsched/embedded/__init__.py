"""The embedded cluster with its scheduler: an API server in memory and the real `Scheduler`, in virtual time.

`koordsched.simulate` runs workloads on it and `koordsched.scenario` its scenarios; neither knows the other.
"""
