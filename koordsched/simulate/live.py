"""The input of `simulate` and `explain`: manifests of files, the objects of a live cluster, or both, the files on top of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

import msgspec

from koordsched.api.kinds import PRIORITY_CLASS, SCHEDULE_EXPLANATION, Kind
from koordsched.config.flag_table import Flags
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions, run_embedded
from koordsched.manifests.documents import InputDocument, expand
from koordsched.manifests.objects import Manifest, flatten, recognise
from koordsched.simulate.manifests import read_files
from koordsched.terminals import is_terminal

if TYPE_CHECKING:
    from koordsched.apiclient.snapshot import Report
    from koordsched.config.types import SchedulerConfiguration


class InputSource(msgspec.Struct, frozen=True):
    """Files, and the live cluster of a kubeconfig, None for none. namespaces: those read where a kind may not be read in all of them."""

    inputs: tuple[str, ...] = ()
    kubeconfig: str | None = None
    context: str | None = None
    namespaces: tuple[str, ...] = ()


class ReadInput(msgspec.Struct):
    """What was read. namespace: that of the kubeconfig's context, "" for none."""

    documents: list[InputDocument]
    notes: list[str] = []
    namespace: str = ""


def read_source(source: InputSource, configs: Sequence[SchedulerConfiguration], err: TextIO) -> ReadInput:
    """Read all that the configured schedulers look at. InputError."""
    with shown_work(err, "reading the files"):
        files = read_files(expand(list(source.inputs)))
    if source.kubeconfig is None:
        return ReadInput(files)
    from koordsched.apiclient.snapshot import AskedKind, ClusterAccess, read_cluster  # noqa: PLC0415  # kubernetes-asyncio takes 0.4 s to import

    kinds = {asked: None for config in configs for asked in looked_at(config)}
    with shown_work(err, "objects read from the cluster") as report:
        access = ClusterAccess(source.kubeconfig, source.context, source.namespaces)
        snapshot = read_cluster(access, [AskedKind(*each) for each in (*kinds, (PRIORITY_CLASS, ""))], report)
    return ReadInput([*without(snapshot.documents, files), *files], snapshot.notes, snapshot.namespace)


def looked_at(config: SchedulerConfiguration) -> list[tuple[Kind, str]]:
    """Return the kinds that a scheduler of this configuration watches, but for the questions that it answers."""

    async def script(embedded: EmbeddedCluster) -> list[tuple[Kind, str]]:
        return embedded.scheduler.watched

    options = EmbeddedOptions(config=config, flags=Flags(enable_network_topology_manager=True), measured=False)
    return [each for each in run_embedded(options, script) if each[0] is not SCHEDULE_EXPLANATION]


def without(cluster: Sequence[InputDocument], files: Sequence[InputDocument]) -> Iterator[InputDocument]:
    """Leave out of the cluster's lists the objects that the files have, too: theirs are changes of these."""
    given = {(manifest.kind, manifest.key) for document in files for manifest in _recognised(document)}
    if not given:
        yield from cluster
        return
    for document in cluster:
        kept = [manifest.body for manifest in _recognised(document) if (manifest.kind, manifest.key) not in given]
        yield InputDocument(document.file, document.number, {**document.value, "items": kept})


def _recognised(document: InputDocument) -> Iterator[Manifest]:
    for origin, body in flatten(document.origin, document.value):
        found = recognise(origin, body, Counter())
        if isinstance(found, Manifest):
            yield found


@contextmanager
def shown_work(err: TextIO, what: str) -> Iterator[Report | None]:
    """Show on a terminal that something is done, and how many there are by now, as far as that is reported."""
    if not is_terminal(err):
        yield None
        return
    from koordsched.simulate.terminal import counting  # noqa: PLC0415  # rich is slow to import

    with counting(err, what) as report:
        yield report
