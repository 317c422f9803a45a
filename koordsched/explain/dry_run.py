"""The file of a dry run (`-f`): a pod that is not there yet, and what comes with it."""

from __future__ import annotations

from koordsched.manifests.documents import InputDocument, InputError, expand
from koordsched.manifests.objects import flatten
from koordsched.manifests.templates import pod_of_template
from koordsched.simulate.manifests import read_files, workload_of
from koordsched.simulate.workload import Workload


def read_dry_run(file: str, namespace: str, profiles: list[str]) -> Workload:
    """Read what would be created; the first of its arrivals is the pod that is explained. namespace: of objects that name none.

    Where the file has no pod, it is one of its first pod template, which the notes say. InputError: it has neither.
    """
    documents = read_files(expand([file]))
    added = workload_of(documents, profiles, namespace=namespace)
    added.notes.clear()  # its pods are on nodes of the cluster
    if added.arrivals:
        return added
    templates = ((origin, body) for document in documents for origin, body in flatten(document.origin, document.value))
    pods = [InputDocument(origin, 0, pod) for origin, body in templates if (pod := pod_of_template(body)) is not None]
    added.arrivals = workload_of(pods[:1], profiles, namespace=namespace).arrivals
    if not added.arrivals:
        raise InputError(f"{file}: no pending pod and no pod template in it")
    added.notes.append(f"note: {pods[0].origin}: explained is one pod of this template")
    return added
