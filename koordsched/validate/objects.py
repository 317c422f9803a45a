"""Manifests into objects: what an API server would refuse of them, and what the plugins that read them cannot use."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Sequence

from koordsched.api.kinds import POD
from koordsched.api.validation import FieldError, InvalidObject, validated
from koordsched.cluster.memory.schemas import definition_of
from koordsched.framework.tooling import Tooling
from koordsched.manifests.completion import mapping
from koordsched.manifests.documents import InputError, expand, read_documents
from koordsched.manifests.objects import Manifest, Rejection, flatten, recognise
from koordsched.validate.findings import CheckedObject, Findings


class ManifestReader:
    """Reads files into objects. What it cannot take goes to the findings; `left_out` counts what scheduling does not read, by kind."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._place = 0
        self.left_out: Counter[str] = Counter()

    def read(self, paths: Sequence[str]) -> list[CheckedObject]:
        """Read files and directories; of objects that are there twice the first one is returned."""
        found: dict[tuple[str, str], CheckedObject] = {}
        for manifest in self._manifests(paths):
            self._place += 1
            if isinstance(manifest, Rejection):
                self._findings.rejected(self._place, manifest)
                continue
            known = found.get((manifest.kind.plural_group, manifest.key))
            if known is not None:
                self._findings.problem(self._place, manifest, f"metadata.name: the object is given twice: {known.manifest.origin}")
                continue
            checked = self._checked(manifest)
            if checked is not None:
                found[manifest.kind.plural_group, manifest.key] = checked
        return list(found.values())

    def _manifests(self, paths: Sequence[str]) -> Iterable[Manifest | Rejection]:
        try:
            files = expand(list(paths))
        except InputError as mistake:
            self._findings.unreadable.append(str(mistake))
            return
        for file in files:
            try:
                documents = read_documents(file)
            except InputError as mistake:
                self._findings.unreadable.append(str(mistake))
                continue
            for document in documents:
                for origin, body in flatten(document.origin, document.value):
                    manifest = _pod_of_template(origin, body) or recognise(origin, body, self.left_out)
                    if manifest is not None:
                        yield manifest

    def _checked(self, manifest: Manifest) -> CheckedObject | None:
        """Return the object, as far as it can be decoded; problems are all that an API server would refuse."""
        body, definition = manifest.body, definition_of(manifest.kind)
        errors: list[FieldError] = []
        if definition is not None:
            errors += [FieldError(path, None, "unknown field, which an API server drops") for path in definition.dropped(body)]
            body = copy.deepcopy(body)
            errors += definition.shape(body)
        refused = frozenset(error.path for error in errors)
        try:
            obj = validated(manifest.kind, body)
        except InvalidObject as invalid:
            errors += [error for error in invalid.errors if plain_path(error.path) not in refused]
            obj = None
        for error in errors:
            self._findings.problem(self._place, manifest, error)
        return None if obj is None else CheckedObject(self._place, manifest, obj, refused)


def plain_path(path: str) -> str:
    """Write a path as schemas do: spec.max.cpu for spec.max[cpu]."""
    return path.replace("[", ".").replace("]", "")


def _pod_of_template(origin: str, body: object) -> Manifest | None:
    """Return a pod of a Deployment, a Job or another object that makes pods of a template, called as that object; None for all others."""
    whole = mapping(body)
    spec = mapping(whole.get("spec"))
    template = mapping(spec.get("template")) or mapping(mapping(mapping(spec.get("jobTemplate")).get("spec")).get("template"))
    name, pod_spec = mapping(whole.get("metadata")).get("name"), mapping(template.get("spec"))
    if not isinstance(name, str) or not name or "containers" not in pod_spec:
        return None
    namespace = mapping(whole.get("metadata")).get("namespace") or "default"
    if not isinstance(namespace, str):
        return None
    metadata = {**mapping(template.get("metadata")), "name": name, "namespace": namespace}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec}
    return Manifest(f"{origin}: {whole.get('kind')}'s template", POD, pod)


def check_with_plugins(objects: Iterable[CheckedObject], tools: Iterable[Tooling], findings: Findings) -> None:
    """Say what plugins cannot use of the objects that they read."""
    checks = [check for each in tools for check in each.object_checks]
    for checked in objects:
        for check in checks:
            if check.kind == checked.manifest.kind:
                for problem in check.problems(checked.obj):
                    findings.problem(checked.place, checked.manifest, problem)
