"""ElasticQuota where the leader changes: only the one that leads answers and writes, and what the next one knows is what there is."""

from __future__ import annotations

import threading
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
from support.elected import LEASE_REF, Client, Leases
from support.fakes import node_manifest, pod_manifest
from support.serving import FakeServer, Served, serving, until

from koordsched.api.kinds import ELASTIC_QUOTA, NODE, POD
from koordsched.clock import RealClock
from koordsched.cluster.port import Patch, Ref
from koordsched.config import load_config_object
from koordsched.config.flag_table import Flags
from koordsched.scheduler.scheduler import Dependencies, Scheduler

if TYPE_CHECKING:
    from koordsched.cluster.apiserver import ConnectionSettings

PREFIX = "quota.scheduling.koordinator.sh/"
QUOTAS = "/apis/v1/plugins/ElasticQuota/quotas"
CONFIG = load_config_object(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "100ms"},
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {"multiPoint": {"enabled": [{"name": "ElasticQuota"}]}},
                "pluginConfig": [{"name": "ElasticQuota", "args": {"quotaGroupNamespace": "default"}}],
            }
        ],
    }
)


class Connecting:
    """Connects a process to the server, and its elector to the lease."""

    def __init__(self, server: FakeServer) -> None:
        self.client, self.leases = Client(server), Leases()

    async def __call__(self, _settings: ConnectionSettings, _clock: object, _random: Random) -> Any:
        return self.client if threading.current_thread() is threading.main_thread() else self.leases


async def create_pods(server: FakeServer, *names: str) -> None:
    for name in names:
        manifest = pod_manifest(name)
        manifest["metadata"]["labels"] = {PREFIX + "name": "a"}
        await server.create(POD, manifest)


def written(server: FakeServer) -> dict[str, str]:
    """Return what quota a's object says."""
    raw = server.raw(Ref(ELASTIC_QUOTA, "default", "a"))
    numbers = {key.removeprefix(PREFIX): text for key, text in raw["metadata"].get("annotations", {}).items()}
    return {**numbers, "used": raw.get("status", {}).get("used", {}).get("cpu", "")}


def bound(server: FakeServer) -> set[str]:
    return {name for name, node in server.nodes_of_pods().items() if node}


async def shown(served: Served) -> Any:
    status, text = await served.get(f"{QUOTAS}/a?includePods=true")
    assert status == 200, text
    return msgspec.json.decode(text)


async def test_a_standby_follows_in_silence_and_leads_with_the_numbers_that_there_are() -> None:
    server = FakeServer()
    await server.create(NODE, node_manifest("n1", cpu="1000"))
    await server.create(ELASTIC_QUOTA, {"metadata": {"name": "a", "namespace": "default"}, "spec": {"max": {"cpu": "2"}}})
    first, connecting = Client(server), Connecting(server)
    leader = Scheduler(CONFIG, Dependencies(first, RealClock(), Random(3), Flags()))
    await leader.start()
    await connecting.leases.hold("other")
    async with serving(server, config=CONFIG, connect=connecting, exit_at_once=list[int]().append) as served:
        await served.ready()
        await create_pods(server, "p0", "p1", "p2", "p3", "p4")
        five = '{"cpu":"5"}'
        await until(lambda: written(server) == {"request": five, "child-request": five, "runtime": '{"cpu":"2"}', "used": "2"})
        gone = min(bound(server))
        await server.delete(Ref(POD, "default", gone))
        await until(lambda: len(bound(server)) == 2 and written(server)["request"] == '{"cpu":"4"}')

        refused = (503, '{"message":"the instance is not leader"}')
        for path in (QUOTAS, f"{QUOTAS}/a", f"{QUOTAS}/a?includePods=true", f"{QUOTAS}/a/explain", f"{QUOTAS}/unknown"):
            assert await served.get(path) == refused
        assert not connecting.client.written

        await leader.kill()
        before = first.written.copy()
        await connecting.leases.patch(LEASE_REF, Patch({"spec": {"holderIdentity": ""}}))
        await until(lambda: served.answers_with(f"{QUOTAS}/a", 200))
        summary = await shown(served)  # with pods, though the answer without them has just been given
        assert (summary["used"], summary["request"], summary["runtime"]) == ({"cpu": "2"}, {"cpu": "4"}, {"cpu": "2"})
        assert {name for name, pod in summary["podCache"].items() if pod["isAssigned"]} == {f"default/{name}" for name in bound(server)}
        assert len(summary["podCache"]) == 4
        assert not connecting.client.written["bind"], "the quota is full"

        await server.delete(Ref(POD, "default", min(bound(server))))
        await until(lambda: len(bound(server)) == 2 and written(server)["request"] == '{"cpu":"3"}')
        assert (connecting.client.written["bind"], written(server)["used"]) == (1, "2")
        assert first.written == before
