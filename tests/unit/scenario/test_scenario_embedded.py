"""Scenarios on the embedded cluster with the real scheduler: every verb and the expectations that need one."""

from __future__ import annotations

import io
from pathlib import Path

from structlog.testing import capture_logs
from support.embedded import answer

from koordsched.scenario.command import ScenarioOptions, run_tests
from koordsched.scenario.embedded import EmbeddedBackend

EVERY_VERB = """
name: every-verb
why: A pod waits for room, a restarted scheduler still knows it, and it is bound when room comes.
given:
  - {kind: Node, metadata: {name: n1, labels: {zone: a}}, status: {allocatable: {cpu: '2', example.com/x: 4}}}
  - {kind: Pod, metadata: {name: old, namespace: team}, spec: {nodeName: n1}, resources: {requests: {cpu: '2'}}}
steps:
  - create: [{kind: Pod, metadata: {name: 'new-{i}', labels: {app: new}}, repeat: 2, resources: {requests: {cpu: '1', example.com/x: 2}}}]
  - expect:
      pods: {team/old: {node: n1, gated: false}, new-0: {pending: 1 Insufficient cpu}, new-1: {pending: true}}
      pending: {selector: {app: new}, count: 2}
      events: [{pod: new-0, reason: FailedScheduling, contains: Insufficient cpu}]
      stays: 3s
  - restart: true
  - expect:
      bound: 1
      http: [{path: /readyz, contains: ok}, {path: /no/such/path, status: 404}]
  - wait: 10m
  - delete: [{kind: Pod, name: old, namespace: team}]
  - expect:
      pods: {new-0: {node: n1}, team/old: {gone: true}}
      samenode: [[new-0, new-1]]
      samelabel: [{key: zone, pods: [new-0, new-1]}]
      events: [{pod: new-1, reason: Scheduled}]
      objects:
        - {apiVersion: v1, kind: Node, name: n1, has: {status: {capacity: {cpu: '2', pods: '110'}}}}
        - {apiVersion: v1, kind: Pod, name: old, namespace: team, gone: true}
      within: 30s
  - patch: [{kind: Node, name: n1, merge: {metadata: {labels: {zone: b}}, status: {allocatable: {cpu: '3'}}}}]
  - create: [{kind: Pod, metadata: {name: third}, resources: {requests: {cpu: '1'}}}]
  - expect:
      pods: {third: {node: {in: [n1]}, annotations: {none: null}}}
      objects: [{apiVersion: v1, kind: Node, name: n1, has: {metadata: {labels: {zone: b}}, status: {allocatable: {cpu: '3'}}}}]
"""
FLAGS_AND_CONFIG = """
name: flags-and-config
why: The inline configuration and the flags reach the scheduler.
config:
  apiVersion: kubescheduler.config.k8s.io/v1
  kind: KubeSchedulerConfiguration
  profiles: [{schedulerName: mine}]
args: [--pod-max-in-unschedulable-pods-duration=60s]
given: [{kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: '1'}}}]
steps:
  - create: [{kind: Pod, metadata: {name: a}, resources: {requests: {cpu: '2'}}}]
  - expect: {objects: [{kind: Pod, name: a, has: {spec: {schedulerName: mine}}}], pods: {a: {pending: true}}}
  - wait: 100s
  - expect: {http: [{path: /metrics, contains: 'scheduler_schedule_attempts_total{profile="mine",result="unschedulable"} 2'}]}
"""
STAYING = """
name: terminating-pod-stays
why: There is no kubelet, so a pod with a grace period or a finalizer stays until it is taken away.
given:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: '1'}}}
  - {kind: Pod, metadata: {name: held, finalizers: [example.com/hold]}, spec: {nodeName: n1}}
steps:
  - delete: [{kind: Pod, name: held}]
  - expect: {pods: {held: {gone: true}}, objects: [{kind: Pod, name: held, has: {spec: {nodeName: n1}}}], stays: 1m}
  - patch: [{kind: Pod, name: held, merge: {metadata: {finalizers: null}}}]
  - expect: {objects: [{kind: Pod, name: held, gone: true}]}
"""
LATE = """
name: late
why: A pod that was tried waits for its backoff of a second, and is bound only then.
steps:
  - create: [{kind: Pod, metadata: {name: a}, resources: {requests: {cpu: '1'}}}]
  - expect: {pods: {a: {pending: true}}}
  - create: [{kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: '1'}}}]
  - expect: {bound: 1, within: 100ms}
"""


def run(tmp_path: Path, text: str, slack: float = 0.0) -> list[str]:
    (tmp_path / "f.yaml").write_text(text)
    out, err = io.StringIO(), io.StringIO()
    with capture_logs():
        run_tests(ScenarioOptions(paths=(str(tmp_path / "f.yaml"),), slack=slack), EmbeddedBackend(answer), out, err)
    assert all(line.startswith("note: profile koord-scheduler without ") for line in err.getvalue().splitlines())
    return out.getvalue().splitlines()


def test_every_verb_works_on_the_embedded_cluster(tmp_path: Path) -> None:
    assert run(tmp_path, EVERY_VERB) == ["PASS every-verb", "1 passed, 0 failed"]


def test_an_inline_configuration_and_flags_are_used(tmp_path: Path) -> None:
    assert run(tmp_path, FLAGS_AND_CONFIG) == ["PASS flags-and-config", "1 passed, 0 failed"]


BROUGHT_ALONG = """
name: classes
why: The manifests of Koordinator's chart may be among the objects of a scenario.
given:
  - {kind: PriorityClass, metadata: {name: koord-prod}, value: 9000, preemptionPolicy: Never}
  - {kind: Pod, metadata: {name: a}, spec: {priorityClassName: koord-prod}}
steps:
  - expect: {objects: [{kind: Pod, name: a, has: {spec: {priority: 9000, preemptionPolicy: Never}}}]}
"""


def test_classes_that_always_exist_may_be_brought_along(tmp_path: Path) -> None:
    assert run(tmp_path, BROUGHT_ALONG) == ["PASS classes", "1 passed, 0 failed"]


def test_there_is_no_kubelet(tmp_path: Path) -> None:
    assert run(tmp_path, STAYING) == ["PASS terminating-pod-stays", "1 passed, 0 failed"]


def test_a_scenario_that_fails_leaves_nothing_for_the_next(tmp_path: Path) -> None:
    fails = "name: fails\nwhy: w\ngiven: [{kind: Node, metadata: {name: n1}}]\nsteps: [{expect: {bound: 1, within: 1s}}]\n"
    passes = "name: passes\nwhy: w\nsteps: [{expect: {objects: [{kind: Node, name: n1, gone: true}]}}]\n"
    assert run(tmp_path, f"{fails}---\n{passes}") == [
        "FAIL fails: steps[0].expect: within 1s: bound: expected 1 pods, seen 0",
        "PASS passes",
        "1 passed, 1 failed",
    ]


def test_slack_lets_an_expectation_come_true_later(tmp_path: Path) -> None:
    assert run(tmp_path, LATE)[0].startswith("FAIL late: steps[3].expect: within 0.1s")
    assert run(tmp_path, LATE, slack=5.0)[0] == "PASS late"
