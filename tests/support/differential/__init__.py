"""The differential test: kube-scheduler and ours decide about the same pods on the same random clusters, one pod after another.

- `features.py`     what may be generated: a feature is on as soon as its plugins are in the registry
- `choosing.py`     ways to choose by chance
- `clusters.py`, `pods.py`, `affinity.py`, `spreading.py`, `storage.py`  random objects, of the words in
                    `vocabulary.py`, written as in scenario files; `objects.py` says where they are served
- `reference.py`    the real kube-scheduler on a real control plane: where a pod went and which scores it had, or why to no node
- `binder.py`       plays the part of the volume controllers that a claim waits for
- `ours.py`         our scheduler on the embedded cluster, kept in step with kube-scheduler's decisions: scores (`scoring.py`), best nodes,
                    message
- `comparison.py`   how two answers differ
- `reproduction.py` a case as a self-contained scenario, with the scores of both
- `trial.py`        plays clusters and collects the differences

Everything follows from the seed. Callers: tests/e2e/test_differential.py, and people with a seed to look at.
"""
