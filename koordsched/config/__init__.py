"""KubeSchedulerConfiguration, read strictly and made complete before anything runs.

A configuration goes through these modules in order: `decoding` (plain values to the Structs of `types`), `defaults`, `plugin_sets` (the
user's plugins over the default ones, then spread over the extension points), `validation`, `completion` (arguments: `args`,
`koordinator_args` and their validation). `loading` runs them, puts the flags over the result and collects every mistake into one
`ConfigError` (`errors`); `writing` goes the other way. `extension_points` is the table of points, `catalogue` knows the plugins, `flags`
and `features` are about the command line, `validate` is the subcommand.

What a simulation does without, and so need not import, is imported from its own module: `flags`, `validate`, `writing`.
"""

from koordsched.config.catalogue import REFERENCE, Catalogue
from koordsched.config.errors import ConfigError, ConfigMistake
from koordsched.config.features import DEFAULT_GATES, FeatureGateError, FeatureGates, parse_feature_gates
from koordsched.config.flag_table import Flags
from koordsched.config.loading import (
    Environment,
    default_config,
    effective_config,
    empty_config,
    load_config,
    load_config_object,
    load_config_text,
)
from koordsched.config.types import KubeSchedulerProfile, PluginArgs, PluginRef, SchedulerConfiguration

__all__ = [
    "DEFAULT_GATES",
    "REFERENCE",
    "Catalogue",
    "ConfigError",
    "ConfigMistake",
    "Environment",
    "FeatureGateError",
    "FeatureGates",
    "Flags",
    "KubeSchedulerProfile",
    "PluginArgs",
    "PluginRef",
    "SchedulerConfiguration",
    "default_config",
    "effective_config",
    "empty_config",
    "load_config",
    "load_config_object",
    "load_config_text",
    "parse_feature_gates",
]
