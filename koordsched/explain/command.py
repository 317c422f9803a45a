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
from koordsched.explain.dry_run import read_dry_run
from koordsched.explain.rendering import json_body, text
from koordsched.framework.handle import SettingsError
from koordsched.manifests.documents import InputError
from koordsched.plugins import installed_catalogue
from koordsched.scheduler.suggestions.explanation import only_node
from koordsched.simulate.live import InputSource, read_source, shown_work
from koordsched.simulate.manifests import workload_of
from koordsched.simulate.workload import PodArrival, Workload

if TYPE_CHECKING:
    from typing import TextIO

FROM_TEMPLATES = "; -f FILE explains a pod that is not there yet, also one of a Deployment or the like"
NO_NODES = "note: the input has no nodes; those of a cluster are written by kubectl get nodes,pods -A -o yaml > cluster.yaml"
DRY_RUN_SECONDS = 5.0
"""Virtual seconds after which the pods of a dry run are submitted: all others have had their attempt."""


class ExplainOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for. pod: NAME or NAMESPACE/NAME, "" for the first pod of `file`. namespace: None for that of the
    kubeconfig's context, else default. Either `inputs` (files) or `kubeconfig`, or both."""

    pod: str = ""
    namespace: str | None = None
    file: str | None = None
    inputs: tuple[str, ...] = ()
    kubeconfig: str | None = None
    context: str | None = None
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
        namespaces = () if options.namespace is None else (options.namespace,)
        found = read_source(InputSource(options.inputs, options.kubeconfig, options.context, namespaces), [config], err)
        workload = workload_of(found.documents, profiles, found.notes)
        namespace = options.namespace or found.namespace or "default"
        pod = (
            _submitted(options.file, namespace, workload, profiles)
            if options.file is not None
            else _named(options.pod, namespace, workload)
        )
        _check_nodes(options.node, workload)
        question = PodQuestion(
            pod=pod, workload=workload, config=config, seed=options.seed, changes=options.changes and options.node is None
        )
        with shown_work(err, "trying what would let it run" if question.changes else "scheduling"):
            explanation = explain(question)
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
        explanation = only_node(explanation, options.node)
    out.write(json_body(explanation).decode() if options.output == "json" else text(explanation, tried=question.changes))
    return 0


def _named(name: str, namespace: str, workload: Workload) -> str:
    """Return the key of the pod that is named. InputError: there is none."""
    key = name if "/" in name else f"{namespace}/{name}"
    pods = [arrival.manifest.key for arrival in workload.arrivals]
    pods += [manifest.key for manifest in workload.existing if manifest.kind is POD]
    if key in pods:
        return key
    near = get_close_matches(key, pods, n=1) or [pod for pod in pods if pod.partition("/")[2] == key.partition("/")[2]][:1]
    raise InputError(f"the input has no pod {key}" + (f"; did you mean {near[0]}?" if near else f", of {len(pods)} pods{FROM_TEMPLATES}"))


def _submitted(file: str, namespace: str, workload: Workload, profiles: list[str]) -> str:
    """Add the objects of a dry run in place of those of their names, and return the key of the pod that it is about. InputError."""
    added = read_dry_run(file, namespace, profiles)
    there = {manifest.ref for manifest in (*added.existing, *(arrival.manifest for arrival in added.arrivals))}
    workload.existing = [manifest for manifest in workload.existing if manifest.ref not in there] + added.existing
    workload.arrivals = [arrival for arrival in workload.arrivals if arrival.manifest.ref not in there]
    workload.rejected += added.rejected
    workload.notes += added.notes
    workload.arrivals += [PodArrival(arrival.manifest, at=DRY_RUN_SECONDS) for arrival in added.arrivals]
    return added.arrivals[0].manifest.key


def _check_nodes(node: str | None, workload: Workload) -> None:
    """Note that the input has no nodes. InputError: it has not the one that is named."""
    nodes = [manifest.key for manifest in workload.existing if manifest.kind is NODE]
    if not nodes:
        workload.notes.append(NO_NODES)
    if node is not None and node not in nodes:
        near = get_close_matches(node, nodes, n=1)
        raise InputError(f"the input has no node {node}" + (f"; did you mean {near[0]}?" if near else ""))
