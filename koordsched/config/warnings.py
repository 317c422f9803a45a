"""What a valid configuration probably does not mean: for the log and for `validate`; nothing here stops a start."""

from __future__ import annotations

from collections.abc import Iterator

from koordsched.config.catalogue import REFERENCE, REMOVED_PLUGINS, Catalogue
from koordsched.config.errors import near_miss
from koordsched.config.merging import ALL, DEFAULT_PRE_BIND
from koordsched.config.types import SETS, KubeSchedulerProfile, SchedulerConfiguration
from koordsched.yamltext.documents import shown

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
