"""`koord-scheduler validate --config FILE`: every mistake of a configuration, or what it comes to; no cluster is needed."""

from __future__ import annotations

from typing import TextIO

from koordsched.config.errors import ConfigError
from koordsched.config.loading import PLAIN, Environment, load_config
from koordsched.config.types import KubeSchedulerProfile, PluginRef, SchedulerConfiguration
from koordsched.config.warnings import config_warnings


def validate_command(path: str, out: TextIO, err: TextIO, environment: Environment = PLAIN) -> int:
    """Check a file ("-": standard input). Returns 0 after a summary on `out`, or 1 after one line a mistake on `err`."""
    try:
        config = load_config(path, environment)
    except ConfigError as error:
        err.writelines(f"{mistake}\n" for mistake in error.errors)
        return 1
    err.writelines(f"warning: {warning}\n" for warning in config_warnings(config, environment.catalogue))
    out.write(summary(config))
    return 0


def summary(config: SchedulerConfiguration) -> str:
    """Say in a few lines what runs: every profile with the plugins of its points, weights in parentheses."""
    return "\n".join(_profile_lines(profile, config) for profile in config.profiles)


def _profile_lines(profile: KubeSchedulerProfile, config: SchedulerConfiguration) -> str:
    percentage = profile.percentage_of_nodes_to_score
    if percentage is None:
        percentage = config.percentage_of_nodes_to_score
    lines = [f"profile {profile.scheduler_name} (percentageOfNodesToScore {percentage})"]
    width = max(map(len, profile.points))
    lines += [f"  {point:{width}}  {' '.join(map(_plugin, refs)) or '-'}" for point, refs in profile.points.items()]
    return "".join(f"{line}\n" for line in lines)


def _plugin(ref: PluginRef) -> str:
    return f"{ref.name}({ref.weight})" if ref.weight else ref.name
