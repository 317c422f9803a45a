"""What is filled in of a short Node or Pod."""

from __future__ import annotations

from koordsched.manifests.completion import complete_node, complete_pod


def test_a_node_needs_only_a_name_and_allocatable() -> None:
    assert complete_node({"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}) == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}},
        "status": {
            "allocatable": {"cpu": "4", "pods": "110"},
            "capacity": {"cpu": "4", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def test_what_a_node_says_is_kept() -> None:
    status = {"allocatable": {"cpu": "3", "pods": 5}, "capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "False"}]}
    made = complete_node({"metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "h"}}, "status": status})
    assert made["metadata"]["labels"] == {"kubernetes.io/hostname": "h"}
    assert made["status"] == {**status, "capacity": {"cpu": "4", "pods": "110"}}


def test_a_node_that_states_only_its_capacity_can_give_all_of_it() -> None:
    made = complete_node({"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "4"}}})
    assert made["status"]["allocatable"] == {"cpu": "4", "pods": "110"}


def test_other_conditions_do_not_stand_for_ready() -> None:
    made = complete_node({"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "DiskPressure", "status": "False"}]}})
    assert [condition["type"] for condition in made["status"]["conditions"]] == ["DiskPressure", "Ready"]


def test_a_pod_gets_one_container_of_its_resources_with_limits_for_extended_ones() -> None:
    requests = {"cpu": "1", "nvidia.com/gpu": 2, "hugepages-2Mi": "4Mi", "kubernetes.io/batch-cpu": 1000}
    made = complete_pod({"kind": "Pod", "metadata": {"name": "a"}, "resources": {"requests": requests}}, "koord-scheduler")
    assert "resources" not in made
    assert made["spec"] == {
        "containers": [
            {
                "name": "main",
                "image": "pause",
                "resources": {"requests": requests, "limits": {"nvidia.com/gpu": 2, "hugepages-2Mi": "4Mi"}},
            }
        ],
        "schedulerName": "koord-scheduler",
        "terminationGracePeriodSeconds": 0,
    }
    assert made["status"] == {"phase": "Pending"}


def test_given_limits_are_not_touched() -> None:
    resources = {"requests": {"nvidia.com/gpu": 1}, "limits": {"cpu": "1"}}
    assert complete_pod({"metadata": {"name": "a"}, "resources": resources}, "s")["spec"]["containers"][0]["resources"] == resources


def test_a_pod_with_a_node_runs_and_what_it_says_is_kept() -> None:
    spec = {"nodeName": "n1", "containers": [{"name": "c"}], "schedulerName": "mine", "terminationGracePeriodSeconds": 30}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    made = complete_pod(body, "koord-scheduler")
    assert made["spec"] == spec
    assert made["status"] == {"phase": "Running"}


def test_the_input_is_not_changed() -> None:
    body = {"metadata": {"name": "a"}, "spec": {"nodeName": "n"}, "resources": {"requests": {"example.com/x": 1}}}
    complete_pod(body, "s")
    complete_node(body)
    assert body == {"metadata": {"name": "a"}, "spec": {"nodeName": "n"}, "resources": {"requests": {"example.com/x": 1}}}


def test_what_has_the_wrong_type_is_left_for_validation() -> None:
    assert complete_pod({"metadata": {"name": "a"}, "resources": 5}, "s")["spec"]["containers"][0]["resources"] == 5
    assert complete_node({"metadata": {"name": "n", "labels": 5}, "status": {"allocatable": "x"}})["metadata"]["labels"] == 5
