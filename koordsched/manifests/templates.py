"""The pod that the controller of another object would make: a Deployment, StatefulSet, Job, CronJob, or any kind with a pod template."""

from __future__ import annotations

from typing import Any

PLACES = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"))
"""Where kinds have their pod template."""


def pod_of_template(body: Any) -> dict[str, Any] | None:
    """Return a pod as the object's pod template describes it, under the object's name; None: it has no template."""
    for place in PLACES:
        template = body
        for key in place:
            template = template.get(key) if isinstance(template, dict) else None
        spec = template.get("spec") if isinstance(template, dict) else None
        if not isinstance(template, dict) or not isinstance(spec, dict) or not isinstance(spec.get("containers"), list):
            continue
        own, metadata = body.get("metadata"), template.get("metadata")
        named = {key: own[key] for key in ("name", "namespace") if key in own} if isinstance(own, dict) else {}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {**(metadata if isinstance(metadata, dict) else {}), **named}, "spec": spec}
    return None
