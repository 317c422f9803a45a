"""Flags that change the configuration: leader election always, the deprecated ones only without --config (framework.md §1.1, §1.5)."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from koordsched.config.flag_table import Flags
from koordsched.config.types import ClientConnection, LeaderElection, SchedulerConfiguration

_ELECTION = {
    f"leader-elect-{info.name.replace('_', '-')}": info.name
    for info in msgspec.structs.fields(LeaderElection)
    if info.name != "leader_elect"
} | {"leader-elect": "leader_elect"}
_CONNECTION = {
    "kubeconfig": "kubeconfig",
    "kube-api-content-type": "content_type",
    "kube-api-qps": "qps",
    "kube-api-burst": "burst",
}
_DEBUGGING = {"profiling": "enable_profiling", "contention-profiling": "enable_contention_profiling"}


def apply_leader_election_flags(config: SchedulerConfiguration, flags: Flags) -> SchedulerConfiguration:
    """Put the leader-election flags that were given over the configuration's values."""
    election: LeaderElection = replace(config.leader_election, **_given(flags, _ELECTION))
    return replace(config, leader_election=election)


def apply_deprecated_flags(config: SchedulerConfiguration, flags: Flags) -> SchedulerConfiguration:
    """Put the connection and profiling flags that were given over the defaults."""
    connection: ClientConnection = replace(config.client_connection, **_given(flags, _CONNECTION))
    return replace(config, client_connection=connection, **_given(flags, _DEBUGGING))


def ignored_flags(flags: Flags) -> tuple[str, ...]:
    """Return the given flags that --config makes ineffective, sorted, with dashes."""
    deprecated = {*_CONNECTION, *_DEBUGGING} if flags.config else set()
    return tuple(f"--{name}" for name in sorted(flags.given & deprecated))


def _given(flags: Flags, attributes: dict[str, str]) -> dict[str, object]:
    """Return attribute -> value of the flags that were given."""
    return {attribute: getattr(flags, name.replace("-", "_")) for name, attribute in attributes.items() if name in flags.given}
