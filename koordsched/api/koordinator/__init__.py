"""Koordinator's own objects, and what it keeps in labels and annotations of others, read and written as v1.8.0 does.

`devices`, `explanations`, `gangs`, `measurements`, `quotas` and `reservations` are its custom resources: of each kind what scheduling reads
or writes, with the field names of the CRDs. `reading` decodes one annotation and words what is wrong with it. `qos` and `priority` are the
classes of pods, `pods`, `nodes`, `node_reservation` and `topology` the annotations of those objects (nodenumaresource.md §1, §2). Values
only: who reads decides what a malformed one means.
"""
