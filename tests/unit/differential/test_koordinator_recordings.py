"""Ours decides as Koordinator's scheduler did about the recorded pods: nodes, every plugin's scores, refusals, victims, devices.

What differs deliberately is known by rules (`support/differential/koordinator/deliberate.py`).

`make differential` plays new trials where the reference is; what is replayed here was recorded by it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from random import Random

import msgspec
import pytest
from support.differential.choosing import Json
from support.differential.koordinator.allocations import devices_in
from support.differential.koordinator.areas import AREAS
from support.differential.koordinator.device_pods import ALLOCATED
from support.differential.koordinator.moments import absolute, moment, relative
from support.differential.koordinator.numa_pods import RESOURCE_STATUS
from support.differential.koordinator.recorder import by_plugin
from support.differential.koordinator.recording import RecordedStep, Recording, append, load
from support.differential.koordinator.replay import replay
from support.differential.replacing import merge, patches
from support.differential.reproduction import report

from koordsched.api.kinds import NODE_METRIC, POD, kind_of
from koordsched.api.validation import validate
from koordsched.config import load_config_text

FOLDER = Path(__file__).parents[2] / "recorded"
BY_AREA = {file.stem: list(load(file)) for file in sorted(FOLDER.glob("*.jsonl"))}
RECORDINGS = {recording.name: recording for recordings in BY_AREA.values() for recording in recordings}
EPOCH = 1_767_225_600  # 2026-01-01T00:00:00Z


@pytest.mark.parametrize("name", RECORDINGS)
def test_ours_decides_as_koordinators_scheduler_did(name: str) -> None:
    differing = [report(case) for case in replay(RECORDINGS[name]) if case.differences]
    assert not differing, f"{len(differing)} pods differ, the first of them:\n{differing[0]}"


def test_every_area_is_recorded() -> None:
    assert BY_AREA.keys() == AREAS.keys()


def test_the_recordings_of_loads_show_what_they_are_for() -> None:
    """Enough pods were bound and refused, each reason was given, and each plugin's scores were not the same on all nodes."""
    reasons: Counter[str] = Counter()
    deciding: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    for step in steps_of("loadaware"):
        outcomes["made room for" if step.nominated else "refused" if step.message else "bound"] += 1
        reasons.update(
            re.sub(r"node\(s\) \S+ (aggregated )?usage", r"\1usage", each) for each in re.findall(r"node\(s\)[^,.]*", step.message)
        )
        deciding.update(plugin for plugin, scores in step.scores.items() if len(set(scores)) > 1)
    assert outcomes["bound"] >= 200, outcomes
    assert outcomes["refused"] >= 80, outcomes
    assert outcomes["made room for"] >= 3, outcomes
    for reason in ("usage exceed threshold", "aggregated usage exceed threshold", "node(s) nodeMetric expired"):
        assert reasons[reason] >= 10, reasons
    for plugin in ("LoadAwareScheduling", "NodeResourcesFitPlus", "ScarceResourceAvoidance"):
        assert deciding[plugin] >= 50, deciding


def steps_of(area: str) -> list[RecordedStep]:
    return [step for recording in BY_AREA[area] for step in recording.steps]


def test_the_recordings_of_devices_show_what_they_are_for() -> None:
    """Devices of each type were given, several at once and virtual functions too, and refused for most reasons that there are."""
    reasons: Counter[str] = Counter()
    given: Counter[str] = Counter()
    for step in steps_of("deviceshare"):
        reasons.update(re.findall(r"\d (Insufficient [A-Za-z ]*|node\(s\)[^,.]*|Unaligned NUMA Hint|no matched)", step.message))
        for device_type, devices in devices_in(step.annotations).items():
            given[device_type] += 1
            given["several"] += len(devices) > 1
            given.update(key for device in devices for key in device.get("extension", ()))
    for name, least in (("gpu", 50), ("rdma", 20), ("fpga", 3), ("several", 15), ("vfs", 3)):
        assert given[name] >= least, given
    for reason in (
        "Insufficient GPU Devices",
        "Insufficient gpu devices",
        "Insufficient rdma devices",
        "Insufficient rdma VirtualFunctions",
        "Insufficient Partitioned GPU Devices",
        "Insufficient Topology Scoped GPU Devices",
        "Insufficient NUMA Scoped Devices",
        "node(s) missing GPU Partition Table",
        "node(s) missing GPU Device Topology Tree",
        "node(s) Unsupported number of GPU requests",
        "node(s) Unsupported Multi-Shared GPU",
    ):
        assert reasons[reason], reasons


def test_the_recordings_of_numa_nodes_show_what_they_are_for() -> None:
    """CPUs and amounts of NUMA nodes were given, alone and both, and refused for most reasons that there are."""
    reasons: Counter[str] = Counter()
    given: Counter[str] = Counter()
    for step in steps_of("nodenumaresource"):
        reasons.update(re.findall(r"\d ([A-Za-z()]+ [A-Za-z]+ [A-Za-z]+)", step.message))
        status = json.loads(step.annotations.get(RESOURCE_STATUS, "{}"))
        given.update(status.keys())
        given["both"] += status.keys() >= {"cpuset", "numaNodeResources"}
    for name, least in (("cpuset", 30), ("numaNodeResources", 30), ("both", 10)):
        assert given[name] >= least, given
    for reason in (
        "Unaligned NUMA Hint",
        "Unsatisfied NUMA cpu",
        "node(s) NUMA Topology",
        "node(s) requested cpus",
        "Insufficient amplified cpu",
        "the requested CPUs",
    ):
        assert reasons[reason], reasons


def test_the_recordings_of_device_plugins_show_what_they_are_for() -> None:
    written = Counter(key for step in steps_of("device-plugins") for key in step.annotations)
    for key in (
        "scheduling.koordinator.sh/gpu-minors",
        "huawei.com/Ascend310P",
        "CAMBRICON_DSMLU_PROFILE",
        "metax-tech.com/gpu-devices-allocated",
    ):
        assert written[key], written
    assert any("failed to adapt" in step.message for step in steps_of("device-plugins"))


def test_devices_that_ours_does_not_give_are_reported() -> None:
    recording = copy_of(BY_AREA["device-plugins"][0])
    step = next(step for step in recording.steps if step.annotations)
    step.annotations[ALLOCATED] = step.annotations[ALLOCATED].replace('"minor":', '"minor":1')
    reported = {case.name: case.differences for case in replay(recording) if case.differences}
    (line,) = reported[f"{recording.name}-{step.pod['metadata']['name']}"]
    assert line.startswith("device-allocated: the reference ")


def copy_of(recording: Recording) -> Recording:
    return msgspec.json.decode(msgspec.json.encode(recording), type=Recording)


def test_a_decision_that_ours_does_not_make_is_reported() -> None:
    recording = copy_of(BY_AREA["loadaware"][0])
    step = next(step for step in recording.steps if "LoadAwareScheduling" in step.scores)
    step.scores["LoadAwareScheduling"][0] += 1
    cases = {case.name: case for case in replay(recording) if case.differences}
    assert list(cases) == [f"{recording.name}-{step.pod['metadata']['name']}"]
    (case,) = cases.values()
    assert [line.split(":")[0] for line in case.differences] == [f"LoadAwareScheduling on {step.nodes[0]}"]
    assert "kind: LoadAwareSchedulingArgs" in report(case)  # the scenario has the trial's own configuration


@pytest.mark.parametrize("area", AREAS)
def test_a_seed_always_makes_the_same_trial(area: str) -> None:
    assert AREAS[area](Random("1")) == AREAS[area](Random("1"))
    assert AREAS[area](Random("1")) != AREAS[area](Random("2"))


@pytest.mark.parametrize("area", AREAS)
def test_what_is_made_is_valid(area: str) -> None:
    for seed in range(30):
        trial = AREAS[area](Random(str(seed)))
        load_config_text(msgspec.json.encode(trial.config).decode())
        bodies = [*trial.objects, *(body for step in trial.steps for body in [*step.written, step.pod])]
        for body in absolute(bodies, EPOCH):
            kind = kind_of(body["apiVersion"], body["kind"])
            assert kind is None or validate(kind, body) == [], body


def test_a_moment_is_relative_to_the_beginning_of_the_trial() -> None:
    body = {"status": {"updateTime": moment(-60), "conditions": [{"lastTransitionTime": moment(5)}], "phase": "@", "n": 1}}
    written = absolute(body, EPOCH)
    assert written["status"] == {
        "updateTime": "2025-12-31T23:59:00Z",
        "conditions": [{"lastTransitionTime": "2026-01-01T00:00:05Z"}],
        "phase": "@",
        "n": 1,
    }
    assert relative(written["status"]["updateTime"], EPOCH) == "@-60"


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    first, second, *_ = RECORDINGS.values()
    for recording in (first, second):
        append(tmp_path / "some.jsonl", recording)
    assert list(load(tmp_path / "some.jsonl")) == [first, second]


def test_scores_are_kept_by_plugin_without_those_that_are_zero_everywhere() -> None:
    scores = {"a": {"LoadAwareScheduling": 3, "ImageLocality": 0}, "b": {"LoadAwareScheduling": 0}}
    assert by_plugin(["a", "b"], scores) == {"LoadAwareScheduling": [3, 0]}


def test_an_object_is_replaced_by_patches_of_what_differs() -> None:
    present: Json = {
        "metadata": {"name": "n1", "annotations": {"a": "1", "b": "2"}},
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}},
        "status": {"updateTime": "t1", "nodeMetric": {"nodeUsage": {"resources": {"cpu": "1"}}}},
    }
    wanted: Json = {"metadata": {"name": "n1", "annotations": {"b": "3"}}, "spec": {}, "status": {"updateTime": "t2"}}
    assert patches(NODE_METRIC, present, wanted) == [
        ("", {"metadata": {"labels": {}, "annotations": {"a": None, "b": "3"}}, "spec": {"metricCollectPolicy": None}}),
        ("status", {"status": {"updateTime": "t2", "nodeMetric": None}}),
    ]
    assert patches(POD, present, {"metadata": {}, "status": {"phase": "Failed"}}) == [("status", {"status": {"phase": "Failed"}})]
    assert merge({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 1}, "d": [2]}) == {"a": {"b": 1, "c": None}, "d": [2]}
