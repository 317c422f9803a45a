"""What extenders take off NodeResourcesFit's hands (framework.md §8, [FIX])."""

from __future__ import annotations

from koordsched.config import load_config_text

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: one
  pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/own, example.com/both]}}]
- schedulerName: two
"""
EXTENDERS = """
extenders:
- urlPrefix: http://a
  managedResources: [{name: example.com/gpu, ignoredByScheduler: true}, {name: example.com/seen}]
- urlPrefix: http://b
  managedResources: [{name: example.com/both, ignoredByScheduler: true}]
"""


def ignored(text: str) -> list[tuple[str, ...]]:
    config = load_config_text(text)
    return [profile.args["NodeResourcesFit"].ignored_resources for profile in config.profiles]


def test_every_profile_ignores_what_it_did_and_what_extenders_say() -> None:
    both = ("example.com/gpu", "example.com/both")
    assert ignored(CONFIG + EXTENDERS) == [("example.com/own", "example.com/both", "example.com/gpu"), both]


def test_without_extenders_nothing_changes() -> None:
    assert ignored(CONFIG) == [("example.com/own", "example.com/both"), ()]
