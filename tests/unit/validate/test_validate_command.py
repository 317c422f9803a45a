"""`koord-scheduler validate --objects`: a line a problem with file, object, field and value, and what would be filled in."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
import yaml

from koordsched.cli import main
from koordsched.quotas.rules import QuotaGates
from koordsched.validate.command import ValidateOptions, read_gates, run_validate

PREFIX = "quota.scheduling.koordinator.sh/"
QUOTA = "apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: ElasticQuota\n"
POD = "apiVersion: v1\nkind: Pod\n"
SPEC = "spec: {containers: [{name: m, image: i, resources: {requests: {cpu: '%s'}}}]}\n"


class Checked:
    """Documents that were checked: exit code, and the lines of both outputs without the file's path."""

    def __init__(self, folder: Path, *documents: str, there: str = "", gates: QuotaGates | None = None, output: str = "text") -> None:
        file = folder / "f.yaml"
        file.write_text("---\n".join(documents), encoding="utf-8")
        cluster: tuple[str, ...] = ()
        if there:
            (folder / "cluster.yaml").write_text(there, encoding="utf-8")
            cluster = (str(folder / "cluster.yaml"),)
        out, err = io.StringIO(), io.StringIO()
        options = ValidateOptions(objects=(str(file),), cluster=cluster, gates=gates or QuotaGates(), output=output)
        self.code = run_validate(options, out, err)
        self.out = out.getvalue()
        self.lines = [line.replace(f"{folder}/", "") for line in err.getvalue().splitlines()]


def quota(name: str, most: str, least: str = "{}", **labels: str) -> str:
    texts = ", ".join(f'{PREFIX}{key.replace("_", "-")}: "{text}"' for key, text in labels.items())
    return f"{QUOTA}metadata: {{name: {name}, labels: {{{texts}}}}}\nspec: {{max: {most}, min: {least}}}\n"


def test_objects_that_are_right_are_counted(tmp_path: Path) -> None:
    checked = Checked(
        tmp_path,
        quota("p", "{cpu: 4}", "{cpu: 2}", is_parent="true"),
        quota("c", "{cpu: 4}", "{cpu: 2}", parent="p"),
        f"{POD}metadata: {{name: x, labels: {{{PREFIX}name: c}}}}\n{SPEC % 1}",
    )
    assert (checked.code, checked.lines) == (0, [])
    assert checked.out == ("3 objects (2 ElasticQuota, 1 Pod): no problems\n2 objects would be filled in or made: -o yaml shows them\n")


def test_a_line_names_file_object_field_and_value(tmp_path: Path) -> None:
    checked = Checked(tmp_path, quota("a", "{cpu: 1}", "{cpu: 2}"))
    assert checked.code == 1
    assert checked.lines == [
        "f.yaml: document 1: ElasticQuota default/a: spec.min[cpu]: Invalid value: 2: resourceKey cpu of quota a min 2 > max 1"
    ]
    assert checked.out.startswith("1 objects (1 ElasticQuota): 1 problem\n")


def test_all_problems_are_named_in_the_order_of_the_objects(tmp_path: Path) -> None:
    checked = Checked(
        tmp_path,
        quota("c", "{cpu: 1}", "{cpu: 1}", parent="p"),
        quota("p", "{cpu: 1, gpu: -1}", is_parent="true"),
        f"{POD}metadata: {{name: x, labels: {{{PREFIX}name: p}}}}\n{SPEC % 1}",
    )
    fields = [(line.split(": ")[1], line.split(": ")[3]) for line in checked.lines if not line.startswith("warning")]
    assert fields == [
        ("document 1", "spec.max"),  # p limits gpu too
        ("document 1", "spec.min"),  # of which p has no cpu
        ("document 1", "spec.min"),  # and so has less than its child
        ("document 2", "spec.max[gpu]"),
        ("document 3", f"metadata.labels[{PREFIX}name]"),
    ]


def test_children_may_come_before_their_parents_with_a_warning(tmp_path: Path) -> None:
    checked = Checked(tmp_path, quota("c", "{cpu: 1}", parent="p"), quota("p", "{cpu: 1}", is_parent="true"))
    assert (checked.code, len(checked.lines)) == (0, 1)
    assert checked.lines[0].endswith("'p' comes later: a webhook refuses a quota that is created before its parent")
    assert checked.lines[0].startswith("warning: f.yaml: document 1: ElasticQuota default/c: ")


def test_quotas_in_a_circle_are_named_and_others_judged_as_ever(tmp_path: Path) -> None:
    checked = Checked(
        tmp_path,
        quota("a", "{cpu: 1}", parent="b", is_parent="true"),
        quota("b", "{cpu: 1}", parent="a", is_parent="true"),
        quota("c", "{cpu: 1}", "{cpu: 2}"),
    )
    assert [line.partition(" ElasticQuota ")[2].split(": ")[0] for line in checked.lines] == ["default/a", "default/b", "default/c"]
    assert all("the quota is its own ancestor" in line for line in checked.lines[:2])


def test_what_an_api_server_refuses_is_said_once(tmp_path: Path) -> None:
    checked = Checked(tmp_path, quota("a", "{cpu: many}"), QUOTA + "metadata: {name: b}\nspec: {mim: {cpu: 1}, max: 3}\n")
    assert [line.partition(": ElasticQuota ")[2].partition(": Invalid")[0] for line in checked.lines] == [
        "default/a: spec.max.cpu",
        "default/b: spec.mim: unknown field, which an API server drops",
        "default/b: spec.max",
    ]


def test_an_object_that_is_given_twice_and_a_file_that_is_none_are_problems(tmp_path: Path) -> None:
    checked = Checked(tmp_path, quota("a", "{cpu: 1}"), quota("a", "{cpu: 2}"), "- 1\n")
    assert [line.partition("document ")[2] for line in checked.lines] == [
        "2: ElasticQuota default/a: metadata.name: the object is given twice: "
        + str(tmp_path / "f.yaml").replace(f"{tmp_path}/", "")
        + ": document 1",
        "3: (root): [1]: expected an object",
    ]
    out, err = io.StringIO(), io.StringIO()
    missing = str(tmp_path / "none.yaml")
    assert run_validate(ValidateOptions(objects=(missing,)), out, err) == 1
    assert err.getvalue() == f"{missing}: cannot be read: No such file or directory\n"
    assert run_validate(ValidateOptions(objects=(), cluster=(missing,)), out, err) == 1


def test_a_pod_that_names_no_quota_that_is_given_gets_a_warning(tmp_path: Path) -> None:
    pods = f"{POD}metadata: {{name: x, labels: {{{PREFIX}name: reserach}}}}\n{SPEC % 1}"
    checked = Checked(tmp_path, quota("research", "{cpu: 1}"), pods)
    assert (checked.code, len(checked.lines)) == (0, 1)
    assert "'reserach': no such quota is given, so the pod is of the default quota, did you mean \"research\"?" in checked.lines[0]
    without = Checked(tmp_path, quota("research", "{cpu: 1}"), pods, gates=QuotaGates(disable_default_quota=True))
    assert "so the pod is of no quota" in without.lines[0]
    built_in = Checked(tmp_path, pods.replace("reserach", "koordinator-default-quota"))
    assert built_in.lines == []


@pytest.mark.parametrize("spec", ["{template: %s}", "{jobTemplate: {spec: {template: %s}}}"])
def test_pods_of_templates_are_pods(tmp_path: Path, spec: str) -> None:
    template = f"{{metadata: {{labels: {{{PREFIX}name: p}}}}, spec: {{containers: [{{name: m, image: i}}]}}}}"
    job = f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j}}\nspec: {spec % template}\n"
    checked = Checked(tmp_path, quota("p", "{cpu: 1}", is_parent="true"), job)
    assert [line.partition(": ")[2] for line in checked.lines] == [
        f'document 2: Job\'s template: Pod default/j: metadata.labels[{PREFIX}name]: Invalid value: "p": '
        "pod can not be linked to a parentQuotaGroup,quota:p, pod:j"
    ]


def test_objects_of_other_kinds_are_checked_by_those_who_read_them_and_unknown_ones_counted(tmp_path: Path) -> None:
    checked = Checked(
        tmp_path,
        "apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: PodGroup\n"
        "metadata: {name: g, annotations: {gang.scheduling.koordinator.sh/mode: Loose}}\nspec: {minMember: 2}\n",
        f"{POD}metadata: {{name: x, annotations: {{gang.scheduling.koordinator.sh/name: g, gang.scheduling.koordinator.sh/mode: No,"
        f" gang.scheduling.koordinator.sh/min-available: '2'}}}}\n{SPEC % 1}",
        "apiVersion: scheduling.koordinator.sh/v1alpha1\nkind: Device\nmetadata: {name: n}\n"
        "spec: {devices: [{type: gpu, minor: -1, health: true}]}\n",
        "apiVersion: slo.koordinator.sh/v1alpha1\nkind: NodeMetric\nmetadata: {name: n}\n"
        "status: {nodeMetric: {nodeUsage: {resources: {cpu: '-1'}}}}\n",
        "apiVersion: v1\nkind: Node\nmetadata: {name: n, annotations: {scheduling.koordinator.sh/usage-thresholds: '{'}}\n",
        "apiVersion: topology.node.k8s.io/v1alpha1\nkind: NodeResourceTopology\ntopologyPolicies: []\nzones: []\n"
        "metadata: {name: n, annotations: {node.koordinator.sh/cpu-topology: x}}\n",
        "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n",
        "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\n",
    )
    kinds = [line.split(": ")[2].split()[0] for line in checked.lines if not line.startswith("note")]
    assert kinds == ["PodGroup", "Pod", "Device", "NodeMetric", "Node", "NodeResourceTopology"]
    assert checked.lines[-1] == "note: left out: 1 Thing (example.com/v1), which scheduling does not look at"
    assert checked.code == 1


# Beside what a cluster has


def test_objects_that_the_cluster_has_are_changed(tmp_path: Path) -> None:
    there = quota("p", "{cpu: 4}", "{cpu: 2}", is_parent="true") + "---\n" + quota("c", "{cpu: 4}", "{cpu: 2}", parent="p")
    assert Checked(tmp_path, quota("c", "{cpu: 4}", "{cpu: 2}", parent="p"), there=there).lines == []
    larger = Checked(tmp_path, quota("c", "{cpu: 4}", "{cpu: 3}", parent="p"), there=there)
    assert [line.partition("spec.min: ")[2] for line in larger.lines] == [
        "checkMinQuotaSum all brothers' MinQuota > parent MinQuota, parent: p (cpu: 3 > 2)"
    ]
    moved = Checked(tmp_path, quota("c", "{cpu: 4}", tree_id="t"), there=there)
    assert "c tree id changed [] vs [t]" in moved.lines[0]
    new = Checked(tmp_path, quota("d", "{cpu: 4}", "{cpu: 1}", parent="p"), there=there)
    assert "parent: p (cpu: 3 > 2)" in new.lines[0]
    assert (
        Checked(
            tmp_path, quota("c", "{cpu: 4}", "{cpu: 3}", parent="p"), quota("p", "{cpu: 4}", "{cpu: 3}", is_parent="true"), there=there
        ).lines
        == []
    )


def test_pods_that_the_cluster_has_hold_their_quota_and_their_label(tmp_path: Path) -> None:
    pod = f"{POD}metadata: {{name: x, labels: {{{PREFIX}name: a}}}}\n{SPEC % 1}"
    there = quota("a", "{cpu: 4}") + "---\n" + pod
    parent = Checked(tmp_path, quota("a", "{cpu: 4}", is_parent="true"), there=there)
    assert "quota has bound pods, isParent is forbidden to modify as true, quotaName: a" in parent.lines[0]
    fixed = Checked(tmp_path, pod.replace("labels: {", f"labels: {{{PREFIX}preemptible: 'false', "), there=there)
    assert "Preemptible label is forbidden modify now." in fixed.lines[0]


# What is filled in


def test_the_objects_as_webhooks_leave_them_are_written(tmp_path: Path) -> None:
    checked = Checked(
        tmp_path,
        quota("p", "{cpu: 4}", is_parent="true", tree_id="t"),
        quota("c", "{cpu: 4000m}", parent="p"),
        f"{QUOTA}metadata: {{name: whole, labels: {{{PREFIX}parent: koordinator-root-quota}}, "
        f"annotations: {{{PREFIX}shared-weight: '{{}}'}}}}\n",
        output="yaml",
    )
    made = list(yaml.safe_load_all(checked.out))
    assert [(body["metadata"]["name"], body["metadata"]["labels"], body["metadata"]["annotations"]) for body in made] == [
        (
            "p",
            {PREFIX + "is-parent": "true", PREFIX + "tree-id": "t", PREFIX + "parent": "koordinator-root-quota"},
            {PREFIX + "shared-weight": '{"cpu":"4"}'},
        ),
        ("c", {PREFIX + "parent": "p", PREFIX + "tree-id": "t"}, {PREFIX + "shared-weight": '{"cpu":"4"}'}),
    ]


PROFILE = (
    "apiVersion: quota.koordinator.sh/v1alpha1\nkind: ElasticQuotaProfile\nmetadata: {name: fast}\n"
    f'spec: {{quotaName: fast-root, nodeSelector: {{matchLabels: {{pool: fast}}}}, quotaLabels: {{{PREFIX}is-parent: "true"}}}}\n'
)
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n, labels: {pool: fast}}\nstatus: {allocatable: {cpu: '16', memory: 4Gi}}\n"


def in_tree(name: str, least: str, tree: str = "") -> str:
    return quota(name, "{cpu: 16, memory: 4Gi}", least, parent="fast-root", **({"tree_id": tree} if tree else {}))


def test_a_profile_makes_the_root_of_a_tree_for_the_quotas_below(tmp_path: Path) -> None:
    checked = Checked(tmp_path, in_tree("a", "{cpu: 9}"), in_tree("b", "{cpu: 8}"), PROFILE, NODE, output="yaml")
    assert [line.partition("default/b: ")[2] for line in checked.lines] == [
        "spec.min: checkMinQuotaSum all brothers' MinQuota > parent MinQuota, parent: fast-root (cpu: 17 > 16)"
    ]
    made = {(body["kind"], body["metadata"]["name"]): body for body in yaml.safe_load_all(checked.out)}
    tree = made["ElasticQuotaProfile", "fast"]["metadata"]["labels"][PREFIX + "tree-id"]
    assert made["ElasticQuota", "fast-root"]["spec"]["min"] == {"cpu": "16", "memory": "4Gi"}
    assert made["ElasticQuota", "a"]["metadata"]["labels"] == {PREFIX + "parent": "fast-root", PREFIX + "tree-id": tree}


def test_without_nodes_what_a_tree_has_limits_nothing_and_a_warning_says_so(tmp_path: Path) -> None:
    checked = Checked(tmp_path, PROFILE, in_tree("a", "{cpu: 9}"))
    assert (checked.code, len(checked.lines)) == (0, 1)
    assert checked.lines[0].endswith("spec.nodeSelector: no Node is given, so what the tree has is not known")


def test_what_is_wrong_with_a_profile_and_with_quotas_beside_it(tmp_path: Path) -> None:
    wrong = PROFILE.replace("{matchLabels: {pool: fast}}", "{matchExpressions: [{key: a, operator: Likes}]}").replace(
        "spec: {", "spec: {resourceRatio: '2', "
    )
    lines = Checked(tmp_path, wrong, NODE).lines
    assert ["spec.resourceRatio" in lines[0], "spec.nodeSelector" in lines[1], len(lines)] == [True, True, 2]
    own = quota("fast-root", "{cpu: 1, memory: 1}", is_parent="true")
    assert "the ElasticQuotaProfile fast writes this quota: labels, min and max" in Checked(tmp_path, PROFILE, NODE, own).lines[0]
    roots = [quota(name, "{cpu: 1}", tree_id="t", is_root="true") for name in ("r", "s")]
    assert [line.partition("tree-id]: ")[2] for line in Checked(tmp_path, *roots).lines] == ["the tree 't' has another root: r"]


def test_gates_decide_about_pods(tmp_path: Path) -> None:
    pods = [f"{POD}metadata: {{name: {name}, labels: {{{PREFIX}name: a}}}}\n{SPEC % 6}" for name in ("x", "y")]
    documents = [PROFILE, NODE, in_tree("a", "{}").replace("cpu: 16", "cpu: 10"), *pods]
    assert Checked(tmp_path, *documents).lines == []
    admission = Checked(tmp_path, *documents, gates=QuotaGates(enable_quota_admission=True))
    assert [line.partition("Pod ")[2] for line in admission.lines] == [
        "default/y: exceeded quota: default/a, requested: cpu=6, used: cpu=6, limited: cpu=10"
    ]
    gone = Checked(tmp_path, pods[0], gates=QuotaGates(enable_quota_admission=True))
    assert "default/x: elastic quota a not found" in gone.lines[-1]
    trees = Checked(tmp_path, *documents, gates=QuotaGates(multi_quota_tree=True), output="yaml")
    affinities = [body["spec"]["affinity"] for body in yaml.safe_load_all(trees.out) if body["kind"] == "Pod"]
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["fast"]}]}
    assert affinities == [{"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}] * 2


def test_gates_are_read_from_a_list() -> None:
    assert read_gates("MultiQuotaTree=true, EnableQuotaAdmission=T,") == QuotaGates(multi_quota_tree=True, enable_quota_admission=True)
    with pytest.raises(ValueError, match="'MultiQuotaTrees' is no feature gate that decides about quotas, did you mean"):
        read_gates("MultiQuotaTrees=true")
    with pytest.raises(ValueError, match="MultiQuotaTree: 'yes': expected true or false"):
        read_gates("MultiQuotaTree=yes")


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yaml").write_text(quota("a", "{cpu: 1}"))
    assert main(["validate", "--objects", str(tmp_path), "--feature-gates=MultiQuotaTree=true"]) == 0
    assert "1 objects (1 ElasticQuota): no problems" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(quota("b", "{cpu: -1}").encode())))
    assert main(["validate", "--objects=-"]) == 1
    assert "-: document 1: ElasticQuota default/b: spec.max[cpu]" in capsys.readouterr().err
    for wrong in (["--objects"], ["--objects", ".", "--config", "x"], ["--objects", ".", "--feature-gates=X=true"]):
        with pytest.raises(SystemExit) as ended:
            main(["validate", *wrong])
        assert ended.value.code == 2
    with pytest.raises(SystemExit) as ended:
        main(["validate", "--objects", "--help"])
    assert ended.value.code == 0
    assert "Exit codes: 0 no problem" in " ".join(capsys.readouterr().out.split())
