"""The reference schedulers, ours and a null binder drain the same backlog on a real kube-apiserver, one after the other, on this machine.

    PYTHONPATH=bench:tests python -m side_by_side --nodes 5000 --pods 5000

- `workload.py`     nodes and pods, `cpus.py` and `gpus.py` those with CPUs of their own and with devices, `koordinator.py` all that
                    Koordinator's whole profile looks at; `filling.py` creates them
- `competitors.py`  how each competitor is started and asked for its metrics; `null_binder.py` is the one that does not schedule,
                    `traced.py` what ours with traces sends to
- `race.py`         one run of one competitor on a control plane of its own; `bindings.py` sees when pods become bound;
                    `wire.py` and `machine.py` what the kernel counts
- `exposition.py`   Prometheus' text: counters, histograms and their quantiles
- `figures.py`      what a run comes to; `table.py` shows runs beside each other

docs/benchmarks.md says what the figures mean.
"""
