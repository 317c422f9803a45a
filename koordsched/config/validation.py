"""What makes a decoded configuration unusable (`apis/config/validation/validation.go`, framework.md §1.1 and §8).

All functions yield (path, problem) with the reference's texts and never raise. `validate_configuration` runs once the defaults are applied
and the profiles' plugins merged; arguments are validated by `completion`, where their types are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.names import extended_resource_problems
from koordsched.config.catalogue import REMOVED_PLUGINS
from koordsched.config.errors import duplicate, forbidden, invalid, required
from koordsched.config.types import API_VERSION, SETS, ExtenderConfig, KubeSchedulerProfile, LeaderElection, SchedulerConfiguration

if TYPE_CHECKING:
    from koordsched.config.args_validation import Problems

RENEW_JITTER = 1.2  # client-go's leader elector multiplies the retry period by it
MAX_PERCENTAGE = 100


def validate_configuration(config: SchedulerConfiguration) -> Problems:
    if config.client_connection.burst < 0:
        yield "clientConnection.burst", invalid(config.client_connection.burst, "must be non-negative")
    yield from validate_leader_election(config.leader_election)
    if config.parallelism <= 0:
        yield "parallelism", invalid(config.parallelism, "should be an integer value greater than zero")
    yield from _validate_profiles(config.profiles)
    yield from _validate_percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    initial, highest = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        yield "podInitialBackoffSeconds", invalid(initial, "must be greater than 0")
    if highest < initial:
        yield "podMaxBackoffSeconds", invalid(highest, "must be greater than or equal to PodInitialBackoffSeconds")
    yield from _validate_extenders(config.extenders)


def validate_leader_election(election: LeaderElection) -> Problems:
    """Check the election's numbers, which only matter when it is on."""
    if not election.leader_elect:
        return
    lease, renew, retry = election.lease_duration, election.renew_deadline, election.retry_period
    for name, duration in (("leaseDuration", lease), ("renewDeadline", renew), ("retryPeriod", retry)):
        if duration <= 0:
            yield f"leaderElection.{name}", invalid(duration.text, "must be greater than zero")
    if lease <= renew:
        yield "leaderElection.leaseDuration", invalid(renew.text, "must be greater than `RenewDeadline`")
    if renew <= RENEW_JITTER * retry:
        yield "leaderElection.renewDeadline", invalid(renew.text, "renewDeadline must be greater than retryPeriod*JitterFactor")
    for name, value in (
        ("resourceLock", election.resource_lock),
        ("resourceNamespace", election.resource_namespace),
        ("resourceName", election.resource_name),
    ):
        if not value:
            yield f"leaderElection.{name}", required()
    if election.resource_lock != "leases":
        yield "leaderElection.resourceLock", invalid(election.resource_lock, 'resourceLock value must be "leases"')


def _validate_percentage(path: str, percentage: int | None) -> Problems:
    if percentage is not None and not 0 <= percentage <= MAX_PERCENTAGE:
        yield path, invalid(percentage, "not in valid range [0-100]")


def _validate_profiles(profiles: tuple[KubeSchedulerProfile, ...]) -> Problems:
    first_use: dict[str, int] = {}
    for index, profile in enumerate(profiles):
        path = f"profiles[{index}]"
        if not profile.scheduler_name:
            yield f"{path}.schedulerName", required()
        yield from _validate_percentage(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
        yield from _validate_repeated_config(profile, path)
        if profile.scheduler_name in first_use:
            yield f"{path}.schedulerName", duplicate(f"profiles[{first_use[profile.scheduler_name]}].schedulerName")
        first_use[profile.scheduler_name] = index
    yield from _validate_queue_sort(profiles)


def validate_removed(profile: KubeSchedulerProfile, path: str) -> Problems:
    """Refuse plugins that Kubernetes no longer has; the profile's plugins are still the user's."""
    problem = f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    for name in SETS:
        for index, plugin in enumerate(profile.plugins.at(name).enabled):
            if plugin.name in REMOVED_PLUGINS:
                yield f"{path}.plugins.{name}.enabled[{index}]", invalid(plugin.name, problem)
    for index, config in enumerate(profile.plugin_config):
        if config.name in REMOVED_PLUGINS:
            yield f"{path}.pluginConfig[{index}]", invalid(config.name, problem)


def _validate_repeated_config(profile: KubeSchedulerProfile, path: str) -> Problems:
    seen: set[str] = set()
    for index, config in enumerate(profile.plugin_config):
        if config.name in seen:
            yield f"{path}.pluginConfig[{index}]", duplicate(config.name)
        seen.add(config.name)


def _validate_queue_sort(profiles: tuple[KubeSchedulerProfile, ...]) -> Problems:
    """All profiles share one queue, so they must sort it alike."""
    canon = profiles[0].plugins.queue_sort
    if len(canon.enabled) > 1:
        yield "profiles[0].plugins.queueSort.enabled", invalid(len(canon.enabled), "only one queue sort plugin can be enabled")
    name = canon.enabled[0].name if canon.enabled else ""
    args = {config.name: config.args for config in profiles[0].plugin_config}.get(name)
    for index, profile in enumerate(profiles[1:], 1):
        if profile.plugins.queue_sort != canon:
            current = msgspec.to_builtins(profile.plugins.queue_sort)
            yield f"profiles[{index}].plugins.queueSort", invalid(current, "must be the same for all profiles")
        for position, config in enumerate(profile.plugin_config):
            if config.name == name and config.args != args:
                path = f"profiles[{index}].pluginConfig[{position}].args"
                yield path, invalid(config.args, "queueSort must be the same for all profiles")


def _validate_extenders(extenders: tuple[ExtenderConfig, ...]) -> Problems:
    managed: set[str] = set()
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        if extender.prioritize_verb and extender.weight <= 0:
            yield f"{path}.weight", invalid(extender.weight, "must have a positive weight applied to it")
        for position, resource in enumerate(extender.managed_resources):
            where = f"{path}.managedResources[{position}].name"
            for problem in extended_resource_problems(resource.name):
                yield where, invalid(resource.name, problem)
            if resource.name in managed:
                yield where, invalid(resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
        tls = extender.tls_config
        if tls is not None and tls.insecure and (tls.ca_file or tls.ca_data):
            yield f"{path}.tlsConfig", forbidden("specifying a root certificates file with the insecure flag is not allowed")
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        yield "extenders", invalid(f"found {binders} extenders implementing bind", "only one extender can implement bind")
