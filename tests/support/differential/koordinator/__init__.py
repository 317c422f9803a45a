"""The differential test against Koordinator's own scheduler, v1.8.0, for the plugins that are Koordinator's.

- `koord_scheduler.py` where its program is, which is not built here
- `areas.py`           what can be compared: an area is a few plugins and a generator
- `generated.py`       what a generator makes: a cluster, and step by step what is written, what is deleted, and the pod that comes then
- `vocabulary.py`, `arguments.py`, `nodes.py`, `node_metrics.py`, `pods.py`  random objects and plugin arguments
- `loadaware.py`       the generator of LoadAwareScheduling, NodeResourcesFitPlus and ScarceResourceAvoidance
- `devices.py`, `device_pods.py`  random Devices with their nodes, and pods that ask for devices or hold them
- `deviceshare.py`, `device_plugins.py`  the generators of DeviceShare, without and with the gate DevicePluginAdaption
- `moments.py`         timestamps that count from the beginning of a trial, so that a recording can be replayed
- `recorder.py`        plays a trial on the reference; `recording.py` is what it decided, as a line of JSON
- `replay.py`          lets ours decide about a recording
- `allocations.py`, `equal.py`  what counts as the same devices, and as the same message about them
- `deliberate.py`      what DeviceShare does otherwise on purpose: rules that know such cases
- `__main__.py`        does one after the other for as many trials as are wanted

Two halves, because the reference is not everywhere: tests/unit/differential/test_koordinator_recordings.py replays what is recorded in
tests/recorded, and `make differential` plays new trials where the program is. Everything follows from area, seed and number.
"""
