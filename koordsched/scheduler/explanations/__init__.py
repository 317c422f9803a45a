"""Why pods are where they are, and why others are nowhere: what the scheduler says of its decisions (frameworkext.md §4.2 and §4.4).

- `switches.py`        which of it is on: the flags --debug-*, which PUT /debug/flags changes while the scheduler runs
- `log_queue.py`       lines that are written after the cycle that they are about
- `decision_log.py`    the table of scores, and what filters refuse
- `attempts.py`        the diagnosis of an attempt that failed, taken before and after PostFilter
- `rendering.py`       a `framework.pod_diagnosis.PodDiagnosis` as the JSON of the log, and as the status of a ScheduleExplanation
- `explainer.py`       the diagnosis of any pod, gang or job as of now, without an attempt
- `owned_pods.py`      the pods of a job
- `controller.py`      fills the status of ScheduleExplanations with it

Nothing of it costs a scheduling cycle anything while it is off.
"""
