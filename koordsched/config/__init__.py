"""KubeSchedulerConfiguration: what the scheduler is told, read strictly and made complete before anything runs.

A configuration goes through these modules in order: `documents` (text to plain values), `decoding` (to the Structs of `types`), `defaults`,
`merging` (the user's plugins over the default ones), `overrides` (flags), `validation`, `completion` (arguments: `args`,
`koordinator_args` and their validation; points: `expansion`). `loading` runs them and collects every mistake into one `ConfigError`;
`writing` goes the other way. `catalogue` knows the plugins, `flags` and `features` the command line, `validate` is the subcommand.
"""

from koordsched.config.catalogue import REFERENCE, Catalogue
from koordsched.config.errors import ConfigError, ConfigMistake
from koordsched.config.features import DEFAULT_GATES, FeatureGateError, FeatureGates, parse_feature_gates
from koordsched.config.flags import FlagError, Flags, not_acted_on, parse_flags
from koordsched.config.loading import (
    Environment,
    default_config,
    effective_config,
    empty_config,
    load_config,
    load_config_object,
    load_config_text,
)
from koordsched.config.types import POINTS, PluginArgs, PluginRef, Profile, SchedulerConfiguration
from koordsched.config.validate import validate_command
from koordsched.config.warnings import config_warnings
from koordsched.config.writing import dump_config, write_config

__all__ = [
    "DEFAULT_GATES",
    "POINTS",
    "REFERENCE",
    "Catalogue",
    "ConfigError",
    "ConfigMistake",
    "Environment",
    "FeatureGateError",
    "FeatureGates",
    "FlagError",
    "Flags",
    "PluginArgs",
    "PluginRef",
    "Profile",
    "SchedulerConfiguration",
    "config_warnings",
    "default_config",
    "dump_config",
    "effective_config",
    "empty_config",
    "load_config",
    "load_config_object",
    "load_config_text",
    "not_acted_on",
    "parse_feature_gates",
    "parse_flags",
    "validate_command",
    "write_config",
]
