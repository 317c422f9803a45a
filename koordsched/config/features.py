"""Feature gates: what `--feature-gates` says over the defaults of Kubernetes 1.35 and Koordinator v1.8.0.

Sources: framework.md §1.7, frameworkext.md §1.3.
Texts equal component-base's featuregate; unlike there, all mistakes are reported, not the first. Gates that concern other components only
(kubelet, API server) are known too, since one value is often handed to all components.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from koordsched.config import gates
from koordsched.config.errors import near_miss

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ALL_ALPHA = "AllAlpha"
ALL_BETA = "AllBeta"
KUBE = "kube"

ALPHA = frozenset((*gates.ALPHA_OFF, *gates.ALPHA_ON))
BETA = frozenset((*gates.BETA_OFF, *gates.BETA_ON))
DEPRECATED = frozenset((*gates.DEPRECATED_OFF, *gates.DEPRECATED_ON, *gates.DEPRECATED_LOCKED_ON, *gates.DEPRECATED_LOCKED_OFF))
LOCKED = frozenset((*gates.STABLE_LOCKED_ON, *gates.DEPRECATED_LOCKED_ON, *gates.DEPRECATED_LOCKED_OFF))
DEFAULTS: dict[str, bool] = {
    ALL_ALPHA: False,
    ALL_BETA: False,
    **dict.fromkeys((*gates.ALPHA_OFF, *gates.BETA_OFF, *gates.DEPRECATED_OFF, *gates.DEPRECATED_LOCKED_OFF), False),
    **dict.fromkeys((*gates.ALPHA_ON, *gates.BETA_ON, *gates.STABLE_ON, *gates.STABLE_LOCKED_ON), True),
    **dict.fromkeys((*gates.DEPRECATED_ON, *gates.DEPRECATED_LOCKED_ON), True),
}

TRUE_WORDS = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE_WORDS = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class FeatureGateError(ValueError):
    """Gates that cannot be set so; `problems` has every reason."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class FeatureGates(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """The state of every gate; `gates["Name"]` answers whether it is on. An unknown name is a bug: KeyError."""

    enabled: Mapping[str, bool] = MappingProxyType(DEFAULTS)

    def __getitem__(self, name: str) -> bool:
        return self.enabled[name]


DEFAULT_GATES = FeatureGates()


def changed_without_effect(enabled: FeatureGates) -> dict[str, str]:
    """Return the gates that are not at their default and change nothing here all the same, and why."""
    return {name: because for name, because in gates.WITHOUT_EFFECT.items() if enabled[name] != DEFAULTS[name]}


def parse_bool(text: str) -> bool | None:
    """Read a boolean as Go's strconv.ParseBool does; None when it is none."""
    return True if text in TRUE_WORDS else False if text in FALSE_WORDS else None


def parse_feature_gates(values: Iterable[str]) -> FeatureGates:
    """Return the gates after `a=true,b=false` lists, in the order given; FeatureGateError has all that is wrong."""
    problems: list[str] = []
    asked: dict[str, bool] = {}
    for pair in (pair for value in values for pair in value.split(",") if pair):
        name, equals, text = _without_component(pair.strip(), problems).partition("=")
        name, switch = name.strip(), parse_bool(text.strip())
        if not equals:
            problems.append(f"missing bool value for {name}")
        elif switch is None:
            problems.append(f'invalid value of {name}={text.strip()}, err: strconv.ParseBool: parsing "{text.strip()}": invalid syntax')
        else:
            asked[name] = switch
    enabled = _apply(asked, problems)
    problems.extend(_unmet_dependencies(enabled))
    if problems:
        raise FeatureGateError(problems)
    return FeatureGates(enabled)


def _without_component(pair: str, problems: list[str]) -> str:
    """Drop the component of `kube:Gate=true`."""
    component, colon, rest = pair.partition(":")
    if colon and component.strip() != KUBE:
        problems.append(f"component not registered: {component.strip()}")
    return rest if colon else pair


def _apply(asked: Mapping[str, bool], problems: list[str]) -> dict[str, bool]:
    enabled = dict(DEFAULTS)
    for group, members in ((ALL_ALPHA, ALPHA), (ALL_BETA, BETA)):
        if group in asked:
            enabled |= dict.fromkeys(members, asked[group])
    for name, switch in asked.items():
        if name not in DEFAULTS:
            problems.append(f"unrecognized feature gate: {name}{near_miss(name, DEFAULTS)}")
        elif name in LOCKED and switch != DEFAULTS[name]:
            asked_for, locked = str(switch).lower(), str(DEFAULTS[name]).lower()
            problems.append(f"cannot set feature gate {name} to {asked_for}, feature is locked to {locked}")
        else:
            enabled[name] = switch
    return enabled


def _unmet_dependencies(enabled: Mapping[str, bool]) -> list[str]:
    problems = []
    for name, needed in gates.DEPENDENCIES.items():
        missing = [other for other in needed if not enabled[other]]
        if enabled[name] and missing:
            problems.append(f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]")
    return problems
