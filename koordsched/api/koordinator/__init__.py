"""What Koordinator keeps in labels and annotations of pods, nodes and NodeResourceTopology objects, read and written as v1.8.0 does.

`reading` decodes one annotation and words what is wrong with it. `qos` and `priority` are the classes of pods, `pods`, `nodes` and
`topology` the annotations of those objects (nodenumaresource.md §1, §2). Values only: who reads decides what a malformed one means.
"""
