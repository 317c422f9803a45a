"""The custom resource definitions of config/crds define the kinds that the scheduler asks for."""

from __future__ import annotations

from typing import Any

import yaml
from support.controlplane.definitions import FOLDER, definitions

from koordsched.api.kinds import KINDS, NODE_RESOURCE_TOPOLOGY, Kind


def served(definition: dict[str, Any]) -> list[tuple[str, str, str, bool]]:
    spec = definition["spec"]
    return [
        (f"{spec['group']}/{version['name']}", spec["names"]["kind"], spec["names"]["plural"], spec["scope"] == "Namespaced")
        for version in spec["versions"]
        if version["served"]
    ]


def as_served(kind: Kind) -> tuple[str, str, str, bool]:
    return kind.api_version, kind.kind, kind.plural, kind.namespaced


def test_every_file_is_installed() -> None:
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    assert sorted(listed) == sorted(path.name for path in FOLDER.glob("*.yaml") if path.name != "kustomization.yaml")


def test_each_definition_serves_the_version_that_is_read() -> None:
    asked = {as_served(kind) for kind in KINDS.values()}
    assert [definition["metadata"]["name"] for definition in definitions() if not asked & set(served(definition))] == []
    assert as_served(NODE_RESOURCE_TOPOLOGY) in {each for definition in definitions() for each in served(definition)}


def test_each_definition_stores_one_version_and_is_named_as_the_api_server_demands() -> None:
    for definition in definitions():
        spec = definition["spec"]
        assert definition["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"
        assert sum(version["storage"] for version in spec["versions"]) == 1
