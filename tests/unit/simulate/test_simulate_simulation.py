"""Workloads played on an embedded world with the real scheduler: what comes out, and that it is the same every time."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec
from structlog.testing import capture_logs
from support.embedded import AnsweringCluster

from koordsched.api.kinds import NODE, POD
from koordsched.config.flags import Flags
from koordsched.config.loading import default_config
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions, run_embedded, run_made
from koordsched.manifests.completion import complete_node, complete_pod
from koordsched.simulate.manifests import load_manifests
from koordsched.simulate.openb import load_openb
from koordsched.simulate.result import Result
from koordsched.simulate.simulation import Simulation, SimulationOutcome
from koordsched.simulate.workload import Workload, all_at_once

CONFIG = default_config()
NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{i},4000,8192,2,{'AB'[i % 2]}\n" for i in range(4))
HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"


def play(workload: Workload, seed: int = 0) -> SimulationOutcome:
    async def script(world: EmbeddedCluster) -> SimulationOutcome:
        return await Simulation(workload, world, lambda _done, _total: None).run()

    with capture_logs():
        return run_embedded(EmbeddedOptions(config=CONFIG, flags=Flags(), seed=seed, lasting=workload.departs), script)


def trace(tmp_path: Path, rows: str) -> Workload:
    (tmp_path / "n.csv").write_text(NODES)
    (tmp_path / "p.csv").write_text(HEADER + rows)
    return load_openb(str(tmp_path / "n.csv"), str(tmp_path / "p.csv"), "koord-scheduler")


def manifests(tmp_path: Path, *documents: str) -> Workload:
    (tmp_path / "f.yaml").write_text("\n---\n".join(documents))
    return load_manifests([str(tmp_path / "f.yaml")], ["koord-scheduler"])


def pod(name: str, cpu: str = "1", **spec: object) -> str:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}
    return msgspec.json.encode(body).decode()


def node(name: str, cpu: str = "4") -> str:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu}}}
    return msgspec.json.encode(body).decode()


def nodes_of(result: Result) -> dict[str, str]:
    return {placement.pod: placement.node for placement in result.placements}


def reasons(result: Result) -> dict[str, str]:
    return {pending.pod: pending.reason for pending in result.pending}


def test_pods_land_where_their_gpu_model_is(tmp_path: Path) -> None:
    result = play(trace(tmp_path, "a,1000,1024,2,1000,A,,,,,\nb,1000,1024,1,500,B,,,,,\nc,1000,1024,1,1000,C,,,,,\n")).result
    placed = nodes_of(result)
    assert placed["default/a"] in {"n0", "n2"}
    assert placed["default/b"] in {"n1", "n3"}
    assert "didn't match Pod's node affinity/selector" in reasons(result)["default/c"]
    shares = dict.fromkeys(("koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio"), 0.3125)
    assert result.summary.allocation == {"cpu": 0.125, "memory": 0.0625, **shares, "pods": round(2 / 440, 6)}


def test_shares_are_those_of_what_transformers_leave(tmp_path: Path) -> None:
    """Of 4 CPUs one is reserved, and the older name of batch-cpu counts as the newer one; annotations that only the scheduler knows are not
    shown as written."""
    reserved = msgspec.json.decode(node("n"))
    reserved["metadata"]["annotations"] = {"node.koordinator.sh/reservation": '{"resources":{"cpu":"1"}}'}
    reserved["status"]["allocatable"]["koordinator.sh/batch-cpu"] = "4000"
    handed = msgspec.json.decode(pod("p", "1", schedulerName="other"))
    handed["metadata"]["labels"] = {"scheduling.koordinator.sh/scheduler-name": "koord-scheduler"}
    handed["spec"]["containers"][0]["resources"]["requests"]["kubernetes.io/batch-cpu"] = "1000"
    result = play(manifests(tmp_path, msgspec.json.encode(reserved).decode(), msgspec.json.encode(handed).decode())).result
    assert nodes_of(result) == {"default/p": "n"}
    assert result.placements[0].annotations == {}
    assert result.summary.allocation["cpu"] == round(1 / 3, 6)
    assert result.summary.allocation["kubernetes.io/batch-cpu"] == 0.25
    assert "koordinator.sh/batch-cpu" not in result.summary.allocation


def test_bands_are_summed_up_where_the_input_speaks_of_them(tmp_path: Path) -> None:
    offering = msgspec.json.decode(node("n"))
    offering["status"]["allocatable"] |= {"memory": "8Gi", "kubernetes.io/batch-cpu": "4000"}

    def job(name: str, milli: int) -> str:
        made = msgspec.json.decode(pod(name, priorityClassName="koord-batch"))
        made["spec"]["containers"][0]["resources"]["requests"] = {"kubernetes.io/batch-cpu": str(milli)}
        return msgspec.json.encode(made).decode()

    labelled = msgspec.json.decode(pod("labelled"))
    labelled["metadata"]["labels"] = {"koordinator.sh/priority-class": "koord-what", "koordinator.sh/qosClass": "BE"}
    documents = [msgspec.json.encode(offering).decode(), job("a", 1000), job("b", 2000), job("c", 3000), pod("web", "2")]
    summary = play(manifests(tmp_path, *documents, msgspec.json.encode(labelled).decode(), pod("bad", "abc"))).result.summary
    assert [msgspec.to_builtins(band) for band in summary.bands] == [
        {"band": "koord-prod", "pods": 1, "bound": 1, "pending": 0, "allocation": {"cpu": 0.5}},
        {"band": "koord-batch", "pods": 4, "bound": 3, "pending": 1, "allocation": {"cpu": 0.25, "kubernetes.io/batch-cpu": 0.75}},
    ], "the labelled one by its QoS class; the one that the cluster refused is in none"
    assert play(manifests(tmp_path, node("n"), pod("web"))).result.summary.bands == []
    assert [band.band for band in play(manifests(tmp_path, documents[0], pod("web"))).result.summary.bands] == ["koord-prod"]
    class_ = '{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "mine"}, "value": 7100}'
    assert [
        band.band for band in play(manifests(tmp_path, node("n"), class_, pod("a", priorityClassName="mine"))).result.summary.bands
    ] == ["koord-mid"]


def test_pods_that_leave_make_room_and_the_allocation_is_the_peak(tmp_path: Path) -> None:
    rows = "".join(f"early{i},4000,1,0,0,,,,0,100,\n" for i in range(3)) + "late,4000,1,0,0,,,,50,200,\n" + "huge,9000,1,0,0,,,,60,70,\n"
    result = play(trace(tmp_path, rows + "again,4000,1,0,0,,,,60,150,\n")).result
    assert sorted(nodes_of(result)) == ["default/again", *(f"default/early{i}" for i in range(3)), "default/late"]
    assert list(reasons(result)) == ["default/huge"]
    assert result.summary.allocation["cpu"] == 1.0
    assert (result.summary.pods, result.summary.bound, result.summary.pending) == (6, 5, 1)


def test_a_pod_that_leaves_before_it_found_a_node_counts_as_pending(tmp_path: Path) -> None:
    rows = "".join(f"p{i},4000,1,0,0,,,,0,100,\n" for i in range(4)) + "short,4000,1,0,0,,,,10,50,\n"
    assert reasons(play(trace(tmp_path, rows)).result)["default/short"].startswith("0/4 nodes are available: 4 Insufficient cpu.")


def test_one_seed_has_one_outcome(tmp_path: Path) -> None:
    workload = trace(tmp_path, "".join(f"p{i},{500 + 100 * (i % 7)},512,0,0,,,,,,\n" for i in range(40)))
    workload.arrivals = all_at_once(workload.arrivals, "random", 3)
    first, second, other = (msgspec.to_builtins(play(workload, seed).result) for seed in (1, 1, 2))
    for result in (first, second, other):
        del result["summary"]["seconds"], result["summary"]["decisionMeanMicros"]
    assert first == second
    assert first != other


def test_placements_are_in_the_order_of_creation(tmp_path: Path) -> None:
    bound = pod("there", nodeName="n1")
    workload = manifests(tmp_path, node("n1"), pod("b"), bound, pod("a"), pod("too-large", "9"))
    assert list(nodes_of(play(workload).result)) == ["default/there", "default/b", "default/a"]


def test_a_refused_pod_is_pending_and_stops_no_other(tmp_path: Path) -> None:
    outcome = play(manifests(tmp_path, node("n1"), pod("bad", "abc"), pod("good")))
    problem = 'spec.containers[0].resources.requests[cpu]: Invalid value: "abc": '
    assert reasons(outcome.result)["default/bad"].startswith(f"rejected: {problem}")
    assert nodes_of(outcome.result) == {"default/good": "n1"}
    (rejection,) = outcome.rejected
    assert rejection.line.startswith(f"{tmp_path}/f.yaml: document 2: Pod default/bad: {problem}")


def test_the_second_of_two_pods_with_one_name_is_refused(tmp_path: Path) -> None:
    outcome = play(manifests(tmp_path, node("n1"), pod("a"), pod("a")))
    assert nodes_of(outcome.result) == {"default/a": "n1"}
    (rejection,) = outcome.rejected
    assert rejection.line == f'{tmp_path}/f.yaml: document 3: Pod default/a: pods "a" already exists'


def test_a_pod_corrected_later_in_the_input_is_not_refused(tmp_path: Path) -> None:
    outcome = play(manifests(tmp_path, node("n1"), pod("a", "abc"), pod("a")))
    assert nodes_of(outcome.result) == {"default/a": "n1"}
    assert outcome.result.pending == []


def test_a_gated_pod_and_one_for_another_scheduler_say_why_they_wait(tmp_path: Path) -> None:
    gated = pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    found = reasons(play(manifests(tmp_path, node("n1"), gated, pod("foreign", schedulerName="mine"))).result)
    assert found["default/gated"] == "Scheduling is blocked due to non-empty scheduling gates"
    assert found["default/foreign"] == "not tried: it is for the scheduler mine, which is no profile of the configuration"


def test_priority_classes_of_the_input_and_those_always_there_count(tmp_path: Path) -> None:
    class_ = '{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "%s"}, "value": %d}'
    pods = [pod("low", "4", priorityClassName="koord-prod"), pod("high", "4", priorityClassName="mine")]
    classes = [class_ % ("mine", 10000), class_ % ("koord-prod", 9000)]
    outcome = play(manifests(tmp_path, node("n1"), *pods, *classes))
    assert nodes_of(outcome.result) == {"default/high": "n1"}
    assert outcome.rejected == []


def test_a_cluster_without_nodes_schedules_nothing(tmp_path: Path) -> None:
    result = play(manifests(tmp_path, pod("a"))).result
    assert reasons(result) == {"default/a": "no nodes available to schedule pods"}
    assert result.summary.allocation == {}


def test_nothing_at_all_is_an_outcome_too() -> None:
    assert play(Workload()).result.summary.pods == 0


def test_a_pod_that_had_to_go_says_what_became_of_it(tmp_path: Path) -> None:
    workload = manifests(tmp_path, node("n1"), pod("victim", nodeName="n1"))

    async def script(world: EmbeddedCluster) -> SimulationOutcome:
        simulation = Simulation(workload, world, lambda _done, _total: None)
        start = world.start

        async def start_and_delete() -> None:
            await start()
            await world.delete(workload.existing[-1].ref)

        world.start = start_and_delete  # type: ignore[method-assign]
        return await simulation.run()

    with capture_logs():
        outcome = run_embedded(EmbeddedOptions(config=CONFIG, flags=Flags()), script)
    assert reasons(outcome.result) == {"default/victim": "it was deleted"}


def test_progress_is_reported_up_to_the_last_pod(tmp_path: Path) -> None:
    workload = manifests(tmp_path, node("n1"), pod("a"), pod("b"))
    reported: list[tuple[int, int]] = []

    async def script(world: EmbeddedCluster) -> SimulationOutcome:
        return await Simulation(workload, world, lambda done, total: reported.append((done, total))).run()

    with capture_logs():
        run_embedded(EmbeddedOptions(config=CONFIG, flags=Flags()), script)
    assert reported[-1] == (2, 2)


def test_a_restarted_scheduler_finds_everything_on_the_cluster() -> None:
    async def script(world: AnsweringCluster) -> tuple[float, list[str]]:
        begun = world.now()
        await world.create(NODE, complete_node(msgspec.json.decode(node("n1", "2"))))

        async def submit(name: str) -> None:
            body = {"kind": "Pod", "metadata": {"name": name, "namespace": "ns"}, "resources": {"requests": {"cpu": "1"}}}
            await world.create(POD, complete_pod(body, "koord-scheduler"))

        await world.start()
        await submit("a")
        await world.settle()
        before = world.scheduler
        await world.restart()
        assert world.scheduler is not before
        for name in ("b", "c"):
            await submit(name)
        await world.sleep(86_400.0)
        pods = await world.list(POD)
        assert (await world.http("/readyz")).status == 200
        return world.now() - begun, [str(item["spec"].get("nodeName")) for item in pods]

    settings = EmbeddedOptions(config=CONFIG, flags=Flags(), lasting=True)
    with capture_logs():
        passed, nodes = run_made(partial(AnsweringCluster, options=settings), script)
    assert passed >= 86_400.0
    assert sorted(nodes) == ["None", "n1", "n1"]
