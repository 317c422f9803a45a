"""`koord-scheduler validate --config FILE`: every mistake of a configuration, or what it comes to; no cluster is needed.

`config_warnings` is what a valid configuration probably does not mean, also for the log of a start; it stops nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from koordsched.config.catalogue import REFERENCE, REMOVED_PLUGINS, Catalogue
from koordsched.config.errors import ConfigError, near_miss
from koordsched.config.loading import PLAIN, Environment, load_config
from koordsched.config.plugin_sets import ALL, DEFAULT_PRE_BIND
from koordsched.config.types import SETS, KubeSchedulerProfile, SchedulerConfiguration
from koordsched.yamltext.documents import shown


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
    for point, refs in profile.points.items():
        plugins = (f"{ref.name}({ref.weight})" if ref.weight else ref.name for ref in refs)
        lines.append(f"  {point:{width}}  {' '.join(plugins) or '-'}")
    return "".join(f"{line}\n" for line in lines)


RESERVATION = "Reservation"


def config_warnings(config: SchedulerConfiguration, catalogue: Catalogue = REFERENCE) -> Iterator[str]:
    """Yield one line for every doubt, those about a profile naming it."""
    yield from catalogue.unusable.values()  # of plugins that the configuration does not enable, or it would not be valid
    for profile in config.profiles:
        for warning in _profile_warnings(profile, catalogue):
            yield f"profile {profile.scheduler_name}: {warning}"


def _profile_warnings(profile: KubeSchedulerProfile, catalogue: Catalogue) -> Iterator[str]:
    at = {point: {ref.name for ref in refs} for point, refs in profile.points.items()}
    if DEFAULT_PRE_BIND not in at["preBind"]:
        # frameworkext.md §1.1: in the reference the patches of other plugins are then lost without a word
        yield f"{DEFAULT_PRE_BIND} is disabled at preBind: what other plugins allocate is not written to the pods' annotations"
    if RESERVATION not in at["reserve"] and any(RESERVATION in names for names in at.values()):
        # Koordinator's own config/manager/scheduler-config.yaml has this mistake
        yield f"{RESERVATION} is enabled but not at reserve: no pod ever becomes the owner of a reservation"
    for name in SETS:
        for plugin in profile.plugins.at(name).disabled:
            if plugin.name not in {ALL, *catalogue.points, *catalogue.unusable, *REMOVED_PLUGINS}:
                yield f"plugins.{name}.disabled names {shown(plugin.name)}, which does not exist{near_miss(plugin.name, catalogue.points)}"
