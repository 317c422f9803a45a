"""DeviceShare with the scoring strategy LeastFragmented: what is learned from pods, where they go, and which GPUs they get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.builders import PodBuilder, node, pod
from support.devices import DeviceBench, device, holding

from koordsched._core.fragmentation import MAX_REQUESTS, expected_waste
from koordsched.api.kinds import POD
from koordsched.cli import main
from koordsched.config.koordinator_args import LEAST_FRAGMENTED, DeviceShareArgs, NumaScoringStrategy
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.topologymanager import share_topology_manager
from koordsched.plugins.deviceshare.fragmentation import (
    LARGEST_STEP,
    WINDOW,
    LeastFragmentedDeviceShare,
    RequestHistory,
    asked_gpus,
    device_share,
)

if TYPE_CHECKING:
    from koordsched.plugins.deviceshare.plugin import DeviceShare

GIB = 1 << 30
ARGS = DeviceShareArgs(scoring_strategy=NumaScoringStrategy(type=LEAST_FRAGMENTED))


class FragmentationBench(DeviceBench):
    """A bench whose plugin has the strategy."""

    def make(self) -> LeastFragmentedDeviceShare:
        nodes, self._nodes = self._nodes, ()
        made = device_share(ARGS, self)
        assert isinstance(made, LeastFragmentedDeviceShare)
        share_topology_manager([made])
        for builder in nodes:
            self.set(builder)
        return made

    def arrive(self, *pods: PodBuilder) -> None:
        for builder in pods:
            self.came(POD, builder.build())

    def scores(self, plugin: DeviceShare, builder: PodBuilder) -> dict[str, int]:
        state, info, nodes = CycleState(), builder.info(), self.cache.nodes()
        plugin.pre_filter(state, info, nodes)
        assert plugin.pre_score(state, info, nodes) is None
        found = plugin.score_nodes(state, info, nodes)
        assert found is not None
        return {self.cache.infos[row].name: int(score) for row, score in zip(nodes.rows, found, strict=True)}


def shared(name: str, percent: int) -> PodBuilder:
    return pod(name).request("koordinator.sh/gpu", str(percent)).request("cpu", "1")


def test_what_is_asked_for_is_read_as_a_share_of_so_many_gpus() -> None:
    def asked(**requests: str) -> object:
        builder = pod("p").request("cpu", "2").request("memory", "1Gi")
        for name, quantity in requests.items():
            builder = builder.request("koordinator.sh/" + name.replace("_", "-"), quantity)
        return asked_gpus(builder.build())

    assert asked(gpu="50") == (2000, GIB, 1, 50, 0)
    assert asked(gpu="400") == (2000, GIB, 4, 100, 0)
    assert asked(gpu_core="30", gpu_memory_ratio="60") == (2000, GIB, 1, 60, 0)
    assert asked(gpu_memory="8Gi") == (2000, GIB, 1, 0, 8 * GIB)
    assert asked() is None
    assert asked(rdma="100") is None
    assert asked(gpu="250") is None, "such a pod is refused"


def test_the_mix_changes_in_steps_that_become_rare() -> None:
    bench = FragmentationBench(node("n"))
    history = bench.make()._history
    versions = [history.version]
    for _ in range(200):
        history.add((1000, GIB, 1, 50, 0))
        versions.append(history.version)
    assert versions[:3] == [0, 1, 2], "the first pod counts at once"
    assert 10 < versions[-1] < 30
    for _ in range(2 * WINDOW):
        history.add((1000, GIB, 1, 25, 0))
    steps = history.version
    for _ in range(LARGEST_STEP):
        history.add((1000, GIB, 1, 25, 0))
    assert history.version == steps + 1
    assert history.mix.items == 2


def test_old_requests_are_forgotten_and_rare_ones_are_left_out() -> None:
    history = RequestHistory(FragmentationBench().make()._table)
    history.add((1000, GIB, 1, 77, 0))
    for place in range(3 * WINDOW):
        history.add((place % 200, GIB, 1, 50, 0))
    assert history.mix.items == MAX_REQUESTS
    assert expected_waste(history.mix, 1_000_000, 1024 * GIB, [76]) == 0


def test_memory_that_is_asked_for_counts_as_a_share_of_the_mean_gpu() -> None:
    bench = FragmentationBench(node("a"), node("b"))
    plugin = bench.make()
    bench.describe(device("a", gpus="1,80Gi"), device("b", gpus="1,40Gi"))
    bench.arrive(pod("p").request("koordinator.sh/gpu-memory", "30Gi"))
    assert expected_waste(plugin._history.mix, 0, 0, [49]) == 49
    assert expected_waste(plugin._history.mix, 0, 0, [50]) == 0


def test_pods_go_where_what_is_left_can_be_used() -> None:
    bench = FragmentationBench(node("a").cpu("32"), node("b").cpu("32"))
    plugin = bench.make()
    bench.describe(device("a", gpus="1"), device("b", gpus="1"))
    bench.put(holding(shared("there", 30), gpu={0: 30}), "a")
    bench.arrive(*(shared(f"p{index}", 70) for index in range(9)), shared("q", 50))
    scores = bench.scores(plugin, shared("new", 70))
    assert scores["a"] > scores["b"], "it fills a, and would leave 30 % of b that next to no pod can use"
    scores = bench.scores(plugin, shared("new", 25))
    assert scores["b"] > scores["a"], "a keeps room for 70 %, but b does not become useless either"


def test_pods_without_gpus_leave_the_cpu_to_those_that_have_some() -> None:
    bench = FragmentationBench(node("gpus").cpu("8"), node("plain").cpu("8"))
    plugin = bench.make()
    bench.describe(device("gpus", gpus="4"))
    bench.arrive(*(pod(f"p{index}").request("koordinator.sh/gpu", "100").request("cpu", "2") for index in range(4)))
    scores = bench.scores(plugin, pod("web").request("cpu", "4"))
    assert scores["plain"] == 50 > scores["gpus"]
    assert bench.scores(plugin, pod("q").request("koordinator.sh/gpu", "100"))["plain"] == 0


def test_the_gpu_is_chosen_by_the_same_measure() -> None:
    bench = FragmentationBench(node("n").cpu("64"))
    plugin = bench.make()
    bench.describe(device("n", gpus="2x2x2,80Gi"))
    bench.put(holding(shared("there", 50), gpu={5: 50, 6: 20}), "n")
    bench.arrive(*(shared(f"p{index}", 80) for index in range(8)), shared("q", 50))
    assert bench.reserve(plugin, shared("half", 50), "n")[1] == {"gpu": [5]}
    assert bench.reserve(plugin, shared("most", 80), "n")[1] == {"gpu": [6]}


def test_a_step_of_the_mix_has_scores_asked_anew() -> None:
    bench = FragmentationBench(node("n"))
    plugin = bench.make()
    info = shared("p", 50).info()
    before = plugin.score_version(info)
    bench.arrive(shared("p", 50))
    assert plugin.has_score_version(info)
    assert plugin.score_version(info) != before
    assert plugin.version(info) == plugin.version(shared("q", 50).info())


def test_the_first_profile_with_the_strategy_learns_for_all() -> None:
    bench = FragmentationBench(node("n"))
    first, second = bench.make(), device_share(ARGS, bench)
    bench.arrive(shared("p", 50))
    info = shared("q", 50).info()
    assert first.score_version(info) == second.score_version(info) == 1


# The report of simulate

TRACE_NODES = "sn,cpu_milli,memory_mib,gpu,model\nnode-0,32000,262144,0,\nnode-1,8000,65536,2,A\nnode-2,96000,393216,4,B\n"
TRACE_PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\nhalf,1000,1024,1,600,B\nwhole,1000,1024,1,1000,A\nnone,1000,1024,0,0,\n"


def simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    (tmp_path / "n.csv").write_text(TRACE_NODES)
    (tmp_path / "p.csv").write_text(TRACE_PODS)
    assert main(["simulate", "--trace", "openb", "--nodes", str(tmp_path / "n.csv"), "--pods", str(tmp_path / "p.csv"), *flags]) == 0
    return capsys.readouterr().out


def test_the_report_says_what_is_allocated_and_what_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu = json.loads(simulated(tmp_path, capsys, "-o", "json"))["summary"]["gpu"]
    models = gpu.pop("models")
    # Of the 40 % left on the used GPU of node-2 neither a pod of 60 % nor one of 100 % can use anything.
    assert gpu == {"gpus": 6, "idle": 4, "partly": 1, "allocation": round(1.6 / 6, 6), "unusable": round(0.4 / 6, 6)}
    assert [(model["model"], model["gpus"], model["allocation"], model["unusable"]) for model in models] == [
        ("A", 2, 0.5, 0.0),
        ("B", 4, 0.15, 0.1),
    ]


def test_the_tables_list_models_and_the_nodes_with_the_least_useful_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = simulated(tmp_path, capsys, "--show-gpus", "1")
    assert "all       6     4       1     26.7 %     6.7 %" in text
    assert "node-2  B               0.40  40 100 100 100" in text
    assert "1 more nodes; --show-gpus N lists more." in text
    assert "Free GPU shares" not in simulated(tmp_path, capsys, "--show-gpus", "0")


def test_inflated_pods_are_drawn_by_the_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = json.loads(simulated(tmp_path, capsys, "--inflate", "130", "-o", "json"))
    assert first["summary"]["gpu"]["allocation"] > 0.7
    again = json.loads(simulated(tmp_path, capsys, "--inflate", "130", "-o", "json"))
    assert again["placements"] == first["placements"]
    assert json.loads(simulated(tmp_path, capsys, "--inflate", "130", "--seed", "1", "-o", "json"))["placements"] != first["placements"]
