"""pods/eviction on a real API server and on the embedded cluster: what a disruption budget says, and what becomes of the pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.both_clusters import Both, on_both
from support.controlplane.plane import ControlPlane

from koordsched.api.kinds import POD, POD_DISRUPTION_BUDGET
from koordsched.cluster.port import Binding, Cluster, Patch, PatchType, Ref

REFUSED = "429 Cannot evict pod as it would violate the pod's disruption budget."


async def running(cluster: Cluster, name: str, *, ready: bool = True, phase: str = "Running", **labels: str) -> Ref:
    """Create a bound pod with the status that a kubelet would have given it."""
    spec = {"containers": [{"name": "main", "image": "none"}], "terminationGracePeriodSeconds": 30}
    made = await cluster.create(POD, {"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec})
    await cluster.bind(Binding("default", name, made.metadata.uid, "n1"))
    ref = Ref(POD, "default", name)
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    await cluster.patch(ref, Patch({"status": status}, PatchType.STRATEGIC, "status"))
    return ref


async def budget(cluster: Cluster, name: str, selector: dict[str, Any] | None, status: dict[str, Any], **spec: Any) -> Ref:
    """Create a budget with the status that a disruption controller would have given it."""
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"minAvailable": 1, "selector": selector, **spec}}
    await cluster.create(POD_DISRUPTION_BUDGET, {key: value for key, value in body.items() if value is not None})
    ref = Ref(POD_DISRUPTION_BUDGET, "default", name)
    whole = {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 1, "observedGeneration": 1, **status}
    await cluster.patch(ref, Patch({"status": whole}, subresource="status"))
    return ref


async def seen(cluster: Cluster, ref: Ref) -> tuple[bool, list[tuple[str, str, str]]]:
    """Return whether the pod terminates, and what is said of its disruption."""
    pod: Any = await cluster.get(ref)
    found = [(each.status, each.reason, each.message) for each in pod.status.conditions if each.type == "DisruptionTarget"]
    return pod.metadata.deletion_timestamp is not None, found


EVICTED = (True, [("True", "EvictionByEvictionAPI", "Eviction API: evicting")])
LEFT: tuple[bool, list[tuple[str, str, str]]] = (False, [])


def selecting(**labels: str) -> dict[str, Any]:
    return {"matchLabels": labels}


def test_a_budget_is_spent_and_then_forbids(plane: ControlPlane, tmp_path: Path) -> None:
    async def script(both: Both) -> None:
        async def prepare(cluster: Cluster) -> None:
            for name in ("a", "b"):
                await running(cluster, name, app="web")
            await budget(cluster, "web", selecting(app="web"), {"currentHealthy": 2, "desiredHealthy": 1, "disruptionsAllowed": 1})

        assert await both.on_each(prepare) == ["", ""]
        first, second = Ref(POD, "default", "a"), Ref(POD, "default", "b")
        assert await both.on_each(lambda cluster: cluster.evict(first)) == ["", ""]
        refused = f"{REFUSED} The disruption budget web does not allow evicting pods currently"
        assert await both.on_each(lambda cluster: cluster.evict(second)) == [refused] * 2
        for cluster in (both.real, both.embedded):
            assert (await seen(cluster, first), await seen(cluster, second)) == (EVICTED, LEFT)
            left: Any = await cluster.get(Ref(POD_DISRUPTION_BUDGET, "default", "web"))
            assert (left.status.disruptions_allowed, list(left.status.disrupted_pods)) == (0, ["a"])
        assert await both.on_each(lambda cluster: cluster.evict(first)) == ["", ""]  # which terminates, whatever the budget says

    on_both(plane, tmp_path, script)


def test_what_budgets_say_of_which_pods(plane: ControlPlane, tmp_path: Path) -> None:
    """Budgets that select the pod, of running pods only; pods that are not ready where enough others are, or the budget says so."""
    none: dict[str, Any] = {"disruptionsAllowed": 0, "desiredHealthy": 2}

    async def script(both: Both) -> None:
        async def prepare(cluster: Cluster) -> None:
            for name in ("free", "several", "stale", "none-selected"):
                await running(cluster, name, app=name)
            await running(cluster, "ended", phase="Succeeded", app="ended")
            await running(cluster, "begins", phase="Pending", app="begins")
            await running(cluster, "unready", ready=False, app="unready")
            await running(cluster, "unready-spare", ready=False, app="unready-spare")
            await running(cluster, "unready-free", ready=False, app="unready-free")
            await running(cluster, "ready-free", app="unready-free")
            for name in ("one", "two"):
                await budget(cluster, name, selecting(app="several"), {"disruptionsAllowed": 1})
            for name in ("ended", "begins", "unready"):
                await budget(cluster, name, selecting(app=name), none)
            await budget(cluster, "stale", selecting(app="stale"), {"disruptionsAllowed": 1, "observedGeneration": 0})
            await budget(cluster, "spare", selecting(app="unready-spare"), {**none, "currentHealthy": 2})
            await budget(cluster, "always", selecting(app="unready-free"), none, unhealthyPodEvictionPolicy="AlwaysAllow")
            await budget(cluster, "of-nothing", None, none)

        assert await both.on_each(prepare) == ["", ""]
        several = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        for name, expected in {
            "free": "",
            "none-selected": "",
            "ended": "",
            "begins": "",
            "several": f"500 {several}",
            "stale": f"{REFUSED} The disruption budget stale is still being processed by the server.",
            "unready": f"{REFUSED} The disruption budget unready needs 2 healthy pods and has 0 currently",
            "unready-spare": "",
            "unready-free": "",
            "ready-free": f"{REFUSED} The disruption budget always needs 2 healthy pods and has 0 currently",
        }.items():
            ref = Ref(POD, "default", name)
            answers = await both.on_each(lambda cluster: cluster.evict(ref, grace_period_seconds=20))  # noqa: B023  # awaited at once
            sent = f"POST {both.real.server}/api/v1/namespaces/default/pods/{name}/eviction: 500: "
            assert [answer.replace(sent, "") for answer in answers] == [expected] * 2, name
            if name not in {"ended", "begins"}:
                for cluster in (both.real, both.embedded):
                    assert await seen(cluster, ref) == (LEFT if expected else EVICTED), name

    on_both(plane, tmp_path, script)


def test_a_budget_with_an_empty_selector_is_about_every_pod_of_its_namespace(plane: ControlPlane, tmp_path: Path) -> None:
    async def script(both: Both) -> None:
        async def prepare(cluster: Cluster) -> None:
            await running(cluster, "a")
            await budget(cluster, "all", {}, {"disruptionsAllowed": 0, "desiredHealthy": 1})

        assert await both.on_each(prepare) == ["", ""]
        refused = f"{REFUSED} The disruption budget all needs 1 healthy pods and has 0 currently"
        assert await both.on_each(lambda cluster: cluster.evict(Ref(POD, "default", "a"))) == [refused] * 2

    on_both(plane, tmp_path, script)


def test_a_pod_that_is_gone_or_another_one_is_not_evicted(plane: ControlPlane, tmp_path: Path) -> None:
    async def script(both: Both) -> None:
        gone = Ref(POD, "default", "gone")
        assert await both.on_each(lambda cluster: cluster.evict(gone)) == ['404 pods "gone" not found'] * 2
        assert await both.on_each(lambda cluster: running(cluster, "a")) == ["", ""]
        other = Ref(POD, "default", "a")
        uid = "00000000-0000-4000-8000-000000000000"
        answers = await both.on_each(lambda cluster: cluster.evict(other, uid=uid))
        clusters: list[Cluster] = [both.real, both.embedded]
        for cluster, answer in zip(clusters, answers, strict=True):
            own = (await cluster.get(other)).metadata.uid
            records = f"the UID in the precondition ({uid}) does not match the UID in record ({own})"
            why = f"{records}. The object might have been deleted and then recreated"
            assert answer == f'409 Operation cannot be fulfilled on Pod "a": {why}'
            assert await seen(cluster, other) == LEFT
            await cluster.evict(other, uid=own)
            assert await seen(cluster, other) == EVICTED

    on_both(plane, tmp_path, script)
