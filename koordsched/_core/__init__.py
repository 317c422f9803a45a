"""The compiled core: columns over nodes and the loops over them.

`table` owns the facts (one row a node, one column a fact) and the log of changed rows. `evaluation` keeps what one pod shape knows of every
row: it decides which plugins are asked about which rows, `verdicts` keeps what filters answered, `ranking` makes totals of what scorers
answered, and `scratch` has the row lists of a round. `view` hides pods of rows. `counts` has numbers per row that a plugin
asked for, and their sums over domains. The other modules are kernels: pure functions from columns and a row selection to a new column.
`cpuset`, `cpu_availability`, `cpu_accumulator` and `cpu_allocator` are about the CPUs of one machine: where they sit, which are available,
which a request takes, and which pods hold them. A CPU set is an integer, bit i being CPU i.
`hint_source` is what a plugin with devices derives from, for `numa_joint` to bring them and CPUs together.
Kernels take the rows to look at as an int32 array and never allocate inside a loop. They know rows, ids and amounts, no API object.
`deadman` is apart from all this: a timer of the operating system that ends the process.
"""
