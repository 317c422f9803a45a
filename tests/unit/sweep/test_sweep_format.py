"""A sweep's file, and what identifies a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.sweeping import SweepFiles, configuration, objects

from koordsched import cli
from koordsched.plugins import tooling
from koordsched.simulate.command import SimulateOptions
from koordsched.sweep.folder import planned_runs
from koordsched.sweep.format import Sweep, SweepError, paths_of, read_sweep
from koordsched.sweep.identity import build_digest


@pytest.fixture
def files(tmp_path: Path) -> SweepFiles:
    return SweepFiles(tmp_path)


def read(path: str) -> Sweep:
    tools = tooling()
    parser = cli._simulate_parser(tools, cli._RaisingParser)

    def read_flags(given: Sequence[str]) -> SimulateOptions:
        return cli._simulate_options(parser, tools, given)

    return read_sweep(path, read_flags)


def mistakes(files: SweepFiles, **fields: Any) -> list[str]:
    with pytest.raises(SweepError) as raised:
        read(files.sweep(**fields))
    return [line.removeprefix(f"{files.folder}/") for line in raised.value.errors]


def digests(sweep: Sweep, build: str = "a build") -> list[str]:
    return [run.digest for run in planned_runs(sweep, build)]


def test_runs_are_in_the_order_of_the_file(files: SweepFiles) -> None:
    given = {"files": "cluster.yaml", "limit-pods": 3}
    sweep = read(files.sweep(inputs={"b": given, "a": given}, seeds=[7, 3]))
    assert [(run.source.name, run.configuration.name, run.seed) for run in planned_runs(sweep, "")] == [
        (source, configured, seed) for source in ("b", "a") for configured in ("spread", "pack") for seed in (7, 3)
    ]


def test_the_example_has_four_configurations_and_ten_seeds() -> None:
    sweep = read(str(Path(__file__).parents[3] / "examples/sweep/sweep.yaml"))
    assert (len(sweep.configurations), len(sweep.inputs), len(sweep.seeds)) == (4, 1, 10)


def test_a_number_of_seeds_counts_from_0(files: SweepFiles) -> None:
    assert read(files.sweep(seeds=3)).seeds == (0, 1, 2)


def test_a_configuration_is_a_file_the_shipped_one_or_stands_there_itself(files: SweepFiles) -> None:
    sweep = read(files.sweep(configurations={"file": "pack.yaml", "here": configuration("MostAllocated"), "shipped": None}))
    file, here, shipped = (yaml.safe_load(each.text) for each in sweep.configurations)
    assert file == here
    assert shipped["profiles"][0]["schedulerName"] == "koord-scheduler"
    assert len(shipped["profiles"][0]["pluginConfig"]) > 1


def test_an_input_has_the_flags_of_simulate_and_files_beside_the_sweep(files: SweepFiles) -> None:
    given = {"files": "cluster.yaml", "add-nodes": ["n0=2", "n1=1"], "drain": "n2", "cpu-topology": "1x1x2x2"}
    (source,) = read(files.sweep(inputs={"own": given})).inputs
    assert paths_of(source.options) == [str(files.folder / "cluster.yaml")]
    assert source.contents == ((files.folder / "cluster.yaml").read_bytes(),)
    assert [(each.template, each.number) for each in source.options.added_nodes] == [("n0", 2), ("n1", 1)]
    assert source.options.drained == ("n2",)
    assert [option.flag for option, _ in source.options.node_options] == ["--cpu-topology"]


@pytest.mark.parametrize(
    ("fields", "seen"),
    [
        ({"configuration": {}}, "sweep.yaml: configuration: unknown field; did you mean 'configurations'?"),
        ({"configurations": {}}, "sweep.yaml: configurations: expected one at least, by name"),
        ({"configurations": {"a": "none.yaml"}}, "none.yaml: document 1: (root): cannot be read: No such file or directory"),
        ({"configurations": {"a": {"kind": "Pod"}}}, "sweep.yaml: configurations.a: document 1: apiVersion: Required value"),
        ({"configurations": {"a": 3}}, "sweep.yaml: configurations.a: 3: expected a file, a KubeSchedulerConfiguration, or nothing"),
        ({"seeds": 0}, "sweep.yaml: seeds: 0: expected a whole number of at least 1"),
        ({"seeds": [1, 1]}, "sweep.yaml: seeds: expected one seed at least, and none twice"),
        ({"inputs": {"a": {"files": "none.yaml"}}}, "sweep.yaml: inputs.a: "),
        ({"inputs": {"a": {"files": "cluster.yaml", "ordr": "random"}}}, "inputs.a: unrecognized arguments: --ordr=random"),
        ({"inputs": {"a": {"files": "cluster.yaml", "ord": "random"}}}, "inputs.a: unrecognized arguments: --ord=random"),
        ({"inputs": {"a": {"files": "cluster.yaml", "order": "first"}}}, "inputs.a: argument --order: invalid choice: 'first'"),
        ({"inputs": {"a": {"files": "cluster.yaml", "seed": 3}}}, "inputs.a: seed: is not of an input, but of the sweep (seeds)"),
        ({"inputs": {"a": {"files": "-"}}}, "inputs.a: standard input: name a file"),
        (
            {"inputs": {"a": {"files": "cluster.yaml", "drain": {"n1": 1}}}},
            'a: drain: {"n1":1}: expected what simulate --drain takes',
        ),
        ({"inputs": {"a": {"trace": "openb", "nodes": "n.csv"}}}, "inputs.a: --trace openb needs --nodes FILE and --pods FILE"),
        ({"inputs": {"a": {"files": "cluster.yaml", "report": "r.html"}}}, "inputs.a: report: is not of an input, but of the sweep"),
        ({"inputs": {"a": {"files": "cluster.yaml", "kubeconfig": "k"}}}, "inputs.a: kubeconfig: a live cluster is another one when"),
    ],
)
def test_a_mistake_is_named_with_its_path(files: SweepFiles, fields: dict[str, Any], seen: str) -> None:
    (line, *_) = mistakes(files, **fields)
    assert seen in line


def test_all_mistakes_are_named(files: SweepFiles) -> None:
    found = mistakes(files, configurations={"a": "none.yaml"}, inputs={"b": {"files": "-"}}, seeds="many")
    assert len(found) == 3


def test_a_run_is_another_one_when_configuration_input_seed_or_code_differ(files: SweepFiles) -> None:
    (first,) = digests(read(files.sweep(configurations={"a": "spread.yaml"}, seeds=[1])))
    seen = {first}
    seen.update(digests(read(files.sweep(configurations={"a": "pack.yaml"}, seeds=[1]))))
    seen.update(digests(read(files.sweep(configurations={"a": "spread.yaml"}, seeds=[2]))))
    seen.update(digests(read(files.sweep(configurations={"a": "spread.yaml"}, inputs={"a": {"files": "cluster.yaml"}}, seeds=[1]))))
    files.write("cluster.yaml", *objects(nodes=5))
    changed = read(files.sweep(configurations={"a": "spread.yaml"}, seeds=[1]))
    seen.update(digests(changed), digests(changed, "another build"))
    assert len(seen) == 6


def test_names_and_what_is_only_shown_do_not_make_another_run(files: SweepFiles) -> None:
    given = {"files": "cluster.yaml", "show-pending": 3, "show-gpus": 2}
    named = read(files.sweep(configurations={"b": "spread.yaml"}, inputs={"other": given}, seeds=[1]))
    files.folder.joinpath("cluster.yaml").rename(files.folder / "moved.yaml")
    moved = read(files.sweep(configurations={"a": "spread.yaml"}, inputs={"own": {"files": "moved.yaml"}}, seeds=[1]))
    assert digests(named) == digests(moved)


def test_the_code_is_identified_by_what_its_files_hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    build_digest.cache_clear()
    before = build_digest()
    package = tmp_path / "someplugin"
    package.mkdir()
    (package / "__init__.py").write_text("weight = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("koordsched.sweep.identity.out_of_tree_packages", lambda: ["someplugin"])
    seen = {before}
    for weight in (1, 2):
        (package / "__init__.py").write_text(f"weight = {weight}\n")
        build_digest.cache_clear()
        seen.add(build_digest())
    build_digest.cache_clear()
    assert len(seen) == 3
