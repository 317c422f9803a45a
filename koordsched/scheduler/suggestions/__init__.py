"""What would let a pending pod run: the smallest changes, each tried before it is said (frameworkext.md §4.2).

- `changes.py`         what a change is, and what a trial says of it
- `pod_changes.py`, `node_changes.py`, `group_changes.py`   the changes: their kind, their amounts, their words
- `search.py`          finds the smallest changes by trials: single ones, else pairs
- `column_trials.py`   tries changes on the columns of a scheduler that runs: nothing is assumed and nothing written
- `possible_changes.py`   which changes are worth a trial for a pod that a scheduler knows
- `preparation.py`     what the first pod of its kind costs, done in steps
- `explanation.py`     what is said of a pod, as one object
- `answers.py`         puts it together in slices beside the scheduling loop, for `/apis/v1/explain`

`koordsched.explain` tries on copies of a cluster what the columns do not show, and everything once more before it is said.
"""
