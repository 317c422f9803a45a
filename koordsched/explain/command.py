"""The `explain` command: options in, exit code out. 0: the pod is explained, whatever becomes of it; 1: an input cannot be read, or has no
such pod."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

import msgspec

from koordsched.api.kinds import NODE, POD
from koordsched.config.errors import ConfigError
from koordsched.config.loading import Environment, default_config, load_config
from koordsched.explain.cluster import PodQuestion, UnknownPod, explain
from koordsched.explain.rendering import json_body, text
from koordsched.framework.handle import SettingsError
from koordsched.manifests.documents import InputError, expand
from koordsched.plugins import installed_catalogue
from koordsched.scheduler.suggestions.explanation import only_node
from koordsched.simulate.manifests import load_manifests
from koordsched.simulate.workload import PodArrival, Workload

if TYPE_CHECKING:
    from typing import TextIO

DRY_RUN_SECONDS = 5.0
"""Virtual seconds after which the pods of a dry run are submitted: all others have had their attempt."""


class ExplainOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for. pod: NAME or NAMESPACE/NAME, "" for the first pod of `file`."""

    pod: str = ""
    namespace: str = "default"
    file: str | None = None
    inputs: tuple[str, ...] = ()
    node: str | None = None
    config: str | None = None
    output: str = "table"
    seed: int = 0
    changes: bool = True


def run_explain(options: ExplainOptions, out: TextIO, err: TextIO) -> int:
    """Explain and print to `out`; what is wrong with the input goes to `err`."""
    try:
        config = load_config(options.config, Environment(installed=installed_catalogue)) if options.config else default_config()
        profiles = [profile.scheduler_name for profile in config.profiles]
        workload = load_manifests(expand(list(options.inputs)), profiles)
        pod = _submitted(options, workload, profiles) if options.file is not None else _named(options, workload)
        _check_node(options.node, workload)
        question = PodQuestion(
            pod=pod, workload=workload, config=config, seed=options.seed, changes=options.changes and options.node is None
        )
        found = explain(question)
    except ConfigError as mistake:
        print(*mistake.errors, sep="\n", file=err)
        return 1
    except (InputError, SettingsError) as mistake:
        print(mistake, file=err)
        return 1
    except UnknownPod as unknown:
        print(f"pod {unknown} was deleted before its turn: it was preempted, or the cluster refused it", file=err)
        return 1
    for line in (*workload.notes, *(rejection.line for rejection in workload.rejected)):
        print(line, file=err)
    if options.node is not None:
        found = only_node(found, options.node)
    out.write(json_body(found).decode() if options.output == "json" else text(found, tried=question.changes))
    return 0


def _named(options: ExplainOptions, workload: Workload) -> str:
    """Return the key of the pod that is named. InputError: there is none."""
    key = options.pod if "/" in options.pod else f"{options.namespace}/{options.pod}"
    pods = [arrival.manifest.key for arrival in workload.arrivals]
    pods += [manifest.key for manifest in workload.existing if manifest.kind is POD]
    if key in pods:
        return key
    near = get_close_matches(key, pods, n=1) or [pod for pod in pods if pod.partition("/")[2] == key.partition("/")[2]][:1]
    raise InputError(f"the input has no pod {key}" + (f"; did you mean {near[0]}?" if near else f", of {len(pods)} pods"))


def _submitted(options: ExplainOptions, workload: Workload, profiles: list[str]) -> str:
    """Add the objects of a dry run, and return the key of the pod that it is about. InputError."""
    assert options.file is not None
    added = load_manifests(expand([options.file]), profiles)
    if not added.arrivals:
        raise InputError(f"{options.file}: no pending pod in it")
    workload.existing += added.existing
    workload.rejected += added.rejected
    there = {arrival.manifest.key for arrival in added.arrivals}
    workload.arrivals = [arrival for arrival in workload.arrivals if arrival.manifest.key not in there]
    workload.arrivals += [PodArrival(arrival.manifest, at=DRY_RUN_SECONDS) for arrival in added.arrivals]
    return added.arrivals[0].manifest.key


def _check_node(node: str | None, workload: Workload) -> None:
    nodes = [manifest.key for manifest in workload.existing if manifest.kind is NODE]
    if node is not None and node not in nodes:
        near = get_close_matches(node, nodes, n=1)
        raise InputError(f"the input has no node {node}" + (f"; did you mean {near[0]}?" if near else ""))
