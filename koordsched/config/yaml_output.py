"""Plain values to YAML, so that reading it back gives the same values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from koordsched.yamltext.scalars import resolve


class _Dumper(yaml.CSafeDumper):
    """PyYAML's emitter without anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (the signature is PyYAML's)
        return True


def _represent_text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if resolve(text) == text else '"')


_Dumper.add_representer(str, _represent_text)


def dump(body: Mapping[str, Any]) -> str:
    """Return block-style YAML in the order of the mapping."""
    return yaml.dump(body, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=2**31 - 1)
