"""Out-of-tree plugins: what installed distributions offer, what is said of those that cannot be used, and the worked example."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support.builders import node, pod
from support.plugins import PluginBench

import koordsched
from koordsched.api.kinds import KINDS
from koordsched.cli import main
from koordsched.config import ConfigError, Environment, load_config_text
from koordsched.config.catalogue import REFERENCE
from koordsched.config.extension_points import EXTENSION_POINTS
from koordsched.framework import interface
from koordsched.framework.cycle_state import CycleState
from koordsched.plugins import REGISTRY, installed_catalogue, registry_for
from koordsched.plugins.discovery import installed

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "plugins" / "nodegeneration"
OPEN_DOORS = ROOT / "plugins" / "maintenance"
DOCUMENT = (ROOT / "docs" / "writing-plugins.md").read_text(encoding="utf-8")

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
ENABLED = HEADER + "profiles: [{plugins: {multiPoint: {enabled: [{name: %s}]}}}]\n"
WITH_ARGS = HEADER + "profiles: [{plugins: {multiPoint: {enabled: [{name: Mine}]}}, pluginConfig: [{name: Mine, args: %s}]}]\n"

GOOD = """
from koordsched.api.kinds import Kind
from koordsched.api.meta import Object
from koordsched.config import PluginArgs
from koordsched.framework.interface import FilterPlugin, Plugin, ScorePlugin

class MineArgs(PluginArgs):
    max_pods: int = 4

    def problems(self):
        return [] if self.max_pods > 0 else [("maxPods", "must be positive")]

class Mine(FilterPlugin, ScorePlugin):
    name = "Mine"
    Args = MineArgs

    def __init__(self, args, handle):
        self.args = args

    def filter(self, state, pod, node):
        return None

    def score(self, state, pod, node):
        return 0

class Untyped(Mine):
    Args = None

class Named(Mine):
    name = "Another"

class WrongArgs(Mine):
    Args = dict

class NoHandle(Mine):
    def __init__(self, args):
        pass

class NoMethods(FilterPlugin):
    name = "Mine"

class Grabber(Mine):
    kinds = (Kind("", "v1", "Node", "nodes", namespaced=False, struct=Object),)

class NoRole(Plugin):
    name = "Mine"

class Stranger:
    name = "Mine"

def function(args, handle):
    return Mine(args, handle)
"""


class Site:
    """A directory of installed distributions on the module path."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = path
        path.mkdir()
        (path / "acme.py").write_text(GOOD)
        monkeypatch.syspath_prepend(path)

    def install(self, distribution: str = "acme-plugins", **entries: str) -> None:
        info = self._path / f"{distribution.replace('-', '_')}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        lines = [f"{name} = {value}" for name, value in entries.items()]
        (info / "entry_points.txt").write_text("\n".join(["[koordsched.plugins]", *lines, ""]))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    installed.cache_clear()
    yield Site(tmp_path / "site", monkeypatch)
    installed.cache_clear()
    for module in [
        name for name in sys.modules if name.partition(".")[0] in {"acme", "koordsched_nodegeneration", "koordsched_maintenance"}
    ]:
        del sys.modules[module]
    for key in [key for key in KINDS if "example.com" in key[0]]:
        del KINDS[key]


@pytest.fixture
def example(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the example on the module path, with the entry points that its own pyproject.toml declares."""
    monkeypatch.syspath_prepend(EXAMPLE)
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    site.install(project["name"], **project["entry-points"]["koordsched.plugins"])


@pytest.fixture
def open_doors(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do the same with the example that brings a kind, events, routes, metrics and a controller."""
    monkeypatch.syspath_prepend(OPEN_DOORS)
    project = tomllib.loads((OPEN_DOORS / "pyproject.toml").read_text())["project"]
    site.install(project["name"], **project["entry-points"]["koordsched.plugins"])


def load(text: str) -> Any:
    return load_config_text(text, Environment(installed=installed_catalogue), "f.yaml")


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load(text)
    return [str(mistake) for mistake in raised.value.errors]


# What is found


def test_each_interface_names_an_extension_point_and_each_point_has_one() -> None:
    interfaces = {cls for cls in vars(interface).values() if inspect.isclass(cls) and issubclass(cls, interface.Plugin)} - {
        interface.Plugin
    }
    assert {point for cls in interfaces for point in interface.extension_points_of(cls)} == {point.name for point in EXTENSION_POINTS}
    assert all(len(interface.extension_points_of(cls)) == 1 for cls in interfaces)


def test_a_plugin_plays_the_points_of_its_roles_and_its_class_makes_it(site: Site) -> None:
    site.install(Mine="acme:Mine")
    config = load(ENABLED % "Mine")
    at = {point for point, refs in config.profiles[0].points.items() if "Mine" in {ref.name for ref in refs}}
    assert at == {"filter", "score"}
    made = registry_for(config)["Mine"]("args", PluginBench())
    assert (made.name, made.args) == ("Mine", "args")  # type: ignore[attr-defined]


def test_typed_arguments_are_defaulted_and_checked(site: Site) -> None:
    site.install(Mine="acme:Mine")
    assert load(ENABLED % "Mine").profiles[0].args["Mine"].max_pods == 4
    assert load(WITH_ARGS % "{maxPods: 7}").profiles[0].args["Mine"].max_pods == 7
    (problem,) = mistakes(WITH_ARGS % "{maxPods: 0}")
    assert 'pluginConfig[0].args.maxPods: initializing plugin "Mine": maxPods: must be positive' in problem
    (problem,) = mistakes(WITH_ARGS % "{maxPod: 7}")
    assert 'did you mean "maxPods"?' in problem


def test_arguments_without_a_class_stay_as_they_are_written(site: Site) -> None:
    site.install(Mine="acme:Untyped")
    assert load(WITH_ARGS % "{anything: [1]}").profiles[0].args["Mine"] == {"anything": [1]}
    assert "Mine" not in load(ENABLED % "Mine").profiles[0].args


def test_nothing_is_looked_for_while_all_plugins_are_in_tree(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: pytest.fail("looked for entry points"))
    assert registry_for(load(ENABLED % "Coscheduling")) is REGISTRY  # known, though this version may not have it
    with pytest.raises(pytest.fail.Exception):
        load(ENABLED % "Mine")


def test_a_name_that_no_package_offers_does_not_exist(site: Site) -> None:
    site.install(Mine="acme:Mine")
    (problem,) = mistakes(ENABLED % "Mien")
    assert problem.endswith('multiPoint.enabled[0]: PreFilterPlugin "Mien" does not exist, did you mean "Mine"? (line 3)')


# What cannot be used

BROKEN = {
    "acme:Absent": "cannot be loaded: AttributeError: module 'acme' has no attribute 'Absent'",
    "no_such_module:Mine": "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'",
    "acme:function": "expected a class that inherits from koordsched.framework.interface.Plugin, seen an object of type function",
    "acme:Stranger": "expected a class that inherits from koordsched.framework.interface.Plugin, seen class Stranger",
    "acme:NoRole": "class NoRole inherits no role of koordsched.framework.interface, such as FilterPlugin",
    "acme:NoMethods": "class NoMethods does not define filter",
    "acme:Named": "class Named has the name 'Another', expected 'Mine'",
    "acme:WrongArgs": "WrongArgs.Args is no subclass of koordsched.config.PluginArgs",
    "acme:Grabber": "Grabber.kinds: 'Node' (nodes) of 'v1' is known already, as 'Node' (nodes)",
    "acme:NoHandle": "class NoHandle cannot be made as NoHandle(args, handle): too many positional arguments",
}


@pytest.mark.parametrize(("value", "problem"), BROKEN.items())
def test_an_entry_that_cannot_be_used_stops_who_enables_it_with_one_line(site: Site, value: str, problem: str) -> None:
    site.install(Mine=value)
    line = f"entry point Mine = {value} of distribution acme-plugins 1.2: {problem}"
    assert mistakes(ENABLED % "Mine") == [f"f.yaml: document 1: profiles[0].plugins.multiPoint.enabled[0]: {line} (line 3)"]
    assert mistakes(WITH_ARGS % "{}") == [f"f.yaml: document 1: profiles[0].plugins.multiPoint.enabled[0]: {line} (line 3)"]


def test_a_module_that_fails_with_many_lines_is_still_one_line(site: Site, tmp_path: Path) -> None:
    (tmp_path / "site" / "acme.py").write_text("raise RuntimeError('first\\n  second')")
    site.install(Mine="acme:Mine")
    assert installed_catalogue().unusable["Mine"].endswith(": cannot be loaded: RuntimeError: first second")


def test_two_distributions_with_one_name_are_both_named(site: Site) -> None:
    site.install("acme-plugins", Mine="acme:Mine")
    site.install("zeta-plugins", Mine="acme:Untyped")
    (line,) = mistakes(ENABLED % "Mine")
    assert "Mine = acme:Mine of distribution acme-plugins 1.2: the name is taken twice, the other one is " in line
    assert "Mine = acme:Untyped of distribution zeta-plugins 1.2; uninstall one" in line


def test_the_name_of_an_in_tree_plugin_cannot_be_taken(site: Site) -> None:
    site.install(NodeName="acme:Mine")
    catalogue = installed_catalogue()
    with pytest.raises(ConfigError) as raised:
        load_config_text(HEADER, Environment(catalogue=catalogue))
    (problem,) = {mistake.problem for mistake in raised.value.errors}
    assert problem == (
        "entry point NodeName = acme:Mine of distribution acme-plugins 1.2: is the name of an in-tree plugin; "
        "a plugin needs a name of its own"
    )
    disabled = HEADER + "profiles: [{plugins: {multiPoint: {disabled: [{name: NodeName}]}}}]\n"
    assert load_config_text(disabled, Environment(catalogue=catalogue)).profiles


def test_a_broken_entry_that_is_not_enabled_leaves_the_others_alone(site: Site) -> None:
    site.install(Mine="acme:Mine", Broken="acme:Absent")
    assert "Mine" in registry_for(load(ENABLED % "Mine"))
    assert "Broken" not in installed().classes
    assert set(installed_catalogue().points) == {*REFERENCE.points, "Mine"}


# On the command line


def test_validate_and_the_start_warn_of_plugins_that_are_not_enabled(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.install(Broken="acme:Absent")
    (tmp_path / "f.yaml").write_text(HEADER)
    warning = f"warning: entry point Broken = acme:Absent of distribution acme-plugins 1.2: {BROKEN['acme:Absent']}\n"
    for command in (["validate"], [f"--write-config-to={tmp_path / 'out.yaml'}"]):
        assert main([*command, "--config", str(tmp_path / "f.yaml")]) == 0
        assert capsys.readouterr().err == warning


def test_every_command_refuses_a_configuration_that_enables_a_broken_entry(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.install(Mine="acme:Absent")
    (tmp_path / "f.yaml").write_text(ENABLED % "Mine")
    (tmp_path / "s.yaml").write_text("name: a\nwhy: b.\nsteps: [{wait: 1s}]\n")
    for command, code in ((["validate"], 1), ([], 1), (["simulate", str(tmp_path / "s.yaml")], 1), (["test", str(tmp_path / "s.yaml")], 2)):
        assert main([*command, "--config", str(tmp_path / "f.yaml")]) == code
        assert capsys.readouterr().err.splitlines() == [
            f"{tmp_path}/f.yaml: document 1: profiles[0].plugins.multiPoint.enabled[0]: entry point Mine = acme:Absent of distribution "
            f"acme-plugins 1.2: {BROKEN['acme:Absent']} (line 3)"
        ]


# The worked example


@pytest.mark.usefixtures("example")
def test_the_examples_scenarios_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--config", str(EXAMPLE / "scheduler.yaml"), str(EXAMPLE / "scenarios")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "4 passed, 0 failed"


@pytest.mark.usefixtures("example")
def test_a_scenario_may_enable_it_in_its_own_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.yaml").write_text(
        "name: a\nwhy: b.\nconfig:\n" + textwrap.indent(ENABLED % "NodeGeneration", "  ") + "given:\n- {kind: Node, metadata: {name: n1}}\n"
        "- {kind: Pod, metadata: {name: a, annotations: {hardware.example.com/min-generation: '1'}}}\n"
        "steps: [{expect: {pods: {a: {pending: too old a hardware generation}}}}]\n"
    )
    assert main(["test", str(tmp_path / "s.yaml")]) == 0, capsys.readouterr()


@pytest.mark.usefixtures("example")
def test_simulate_runs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.yaml").write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: '4', memory: 8Gi}}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: main}]}\n"
    )
    assert main(["simulate", "--config", str(EXAMPLE / "scheduler.yaml"), str(tmp_path / "in.yaml")]) == 0
    assert "node(s) had too old a hardware generation" in capsys.readouterr().out


@pytest.mark.usefixtures("open_doors")
def test_a_plugin_brings_a_kind_events_routes_metrics_and_a_controller(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--config", str(OPEN_DOORS / "scheduler.yaml"), str(OPEN_DOORS / "scenarios")]) == 0, capsys.readouterr()
    assert capsys.readouterr().out.splitlines()[-1] == "3 passed, 0 failed"


@pytest.mark.usefixtures("open_doors")
def test_simulate_knows_the_kind_that_a_plugin_brings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.yaml").write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {maintenance.example.com/pool: a}}\n"
        "status: {allocatable: {cpu: '4', memory: 8Gi}}\n---\n"
        "apiVersion: maintenance.example.com/v1\nkind: MaintenanceWindow\nmetadata: {name: w}\nspec: {pool: a}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: main}]}\n"
    )
    assert main(["simulate", "--config", str(OPEN_DOORS / "scheduler.yaml"), str(tmp_path / "in.yaml")]) == 0
    assert "node(s) were under maintenance" in capsys.readouterr().out


@pytest.mark.parametrize("example", [EXAMPLE, OPEN_DOORS], ids=lambda path: path.name)
def test_the_examples_own_tests_pass(example: Path) -> None:
    # In a process of their own, as its author runs them; koordsched is the one under test here.
    path = os.pathsep.join([str(Path(koordsched.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-P", "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=example, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


# The page for authors


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, flags=re.DOTALL | re.MULTILINE)


def test_what_the_page_quotes_is_what_the_example_says() -> None:
    (entry_point,) = blocks("toml")
    assert entry_point in (EXAMPLE / "pyproject.toml").read_text()
    (scenario,) = blocks("yaml")
    assert scenario in (EXAMPLE / "scenarios" / "nodegeneration.yaml").read_text()
    source = [line.partition("  #")[0] for line in (EXAMPLE / "koordsched_nodegeneration" / "plugin.py").read_text().splitlines()]
    for excerpt in [block for block in blocks("python") if not block.startswith(("import", "from"))]:
        assert [line for line in excerpt.splitlines() if line not in source] == []


@pytest.mark.usefixtures("example")
def test_the_columnar_plugin_of_the_page_answers_like_the_plain_one() -> None:
    names = run_block("NodeGenerationColumns")
    plain_class, args = names["NodeGeneration"], names["NodeGeneration"].Args(default_min_generation=1)
    nodes = [node(f"n{i}").label("hardware.example.com/generation", text) for i, text in enumerate(("new", "0", "1", "2", "3", "999"))]
    bench = PluginBench(node("bare"), *nodes)
    columnar, plain = names["NodeGenerationColumns"](args, bench), plain_class(args, bench)
    for wanted in (None, "0", "2", "999"):
        builder = pod() if wanted is None else pod().annotation("hardware.example.com/min-generation", wanted)
        info, state = builder.info(), CycleState()
        plain.pre_filter(state, info, bench.cache.nodes())
        each = bench.cache.nodes_by_name.items()
        assert bench.filter(columnar, builder) == {name: plain.filter(state, info, one) for name, one in each}
        assert bench.score(columnar, builder) == {name: plain.score(state, info, one) for name, one in each}


def test_the_time_dependent_plugin_of_the_page_changes_its_answer_only_with_its_version() -> None:
    clock = SimpleNamespace(time=0.0)
    clock.now = lambda: clock.time
    plugin = run_block("NodeAge")["NodeAge"](None, SimpleNamespace(clock=clock))
    made = SimpleNamespace(node=SimpleNamespace(metadata=SimpleNamespace(creation_timestamp="1970-01-01T00:01:30Z")))
    answers: dict[Any, set[bool]] = {}
    for second in range(0, 1200, 7):
        clock.time = float(second)
        answers.setdefault(plugin.version(None), set()).add(plugin.filter(None, None, made) is None)
    assert all(len(seen) == 1 for seen in answers.values())
    assert min(minute for minute, seen in answers.items() if seen == {True}) == 12  # 90 s + 600 s = 690 s: the first full minute is 720 s


def run_block(cls: str) -> dict[str, Any]:
    """Run the block of the page that defines this class and return its names."""
    (block,) = [block for block in blocks("python") if f"class {cls}(" in block and block.startswith(("import", "from"))]
    names: dict[str, Any] = {"__name__": "page"}
    exec(block, names)
    return names
