"""GPU shared resource templates: the sizes into which a vendor's cards can be cut, read from a ConfigMap (deviceshare.md §2 to §4).

The ConfigMap that DeviceShareArgs name holds, under `data.yaml`, templates by `<vendor>-<model>` and name, each a list of resources. A text
that cannot be read changes nothing and is reported on the ConfigMap, once for each change of it. A ConfigMap that is deleted, or has no
such key, means no templates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from koordsched.api.kinds import CONFIG_MAP
from koordsched.api.quantity import QuantityError, value
from koordsched.api.validation.decoding import strip_nulls
from koordsched.cluster.event_series import EventText
from koordsched.cluster.object_store import Arrival
from koordsched.framework.status import unresolvable
from koordsched.log import get_logger
from koordsched.queue.events import ActionType, EventResource, cluster_event
from koordsched.yamltext.documents import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koordsched.api.meta import Unstructured
    from koordsched.cluster.object_store import FinalState
    from koordsched.framework.handle import Handle

log = get_logger(__name__)

DATA_KEY = "data.yaml"
NO_TEMPLATE = unresolvable("no matched GPU shared resource template")
TEMPLATE_CHANGES = cluster_event(
    EventResource.CUSTOM, ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_OTHER, CONFIG_MAP.plural_group
)
"""May help pods that were refused for want of a template; for the plugin to register."""
INVALID_TEMPLATES_EVENT = "InvalidGPUSharedResourceTemplates"

Templates = dict[str, dict[str, dict[str, int]]]
"""By model key, `<vendor>-<model>`, and name: amounts by resource."""


class ConfigMapName(NamedTuple):
    namespace: str
    name: str


class MalformedTemplates(ValueError):
    """The ConfigMap's templates cannot be read; the text is one line that names the key, the place and the value."""


def read_templates(config_map: Unstructured) -> Templates:
    """Read the templates of a ConfigMap; none where it has no such key. MalformedTemplates."""
    data = config_map.raw.get("data")
    text = data.get(DATA_KEY) if isinstance(data, dict) else None
    if text is None:
        return {}
    if not isinstance(text, str):
        raise MalformedTemplates(f"{DATA_KEY}: expected a text: {shown(text)}")
    from koordsched.yamltext.reading import read_documents  # noqa: PLC0415  # PyYAML is imported only where there are templates

    documents = read_documents(text)
    if not documents:
        return {}
    document = documents[0]
    if document.problems:
        problem = document.problems[0]
        raise MalformedTemplates(f"{DATA_KEY}: {problem.path}: {problem.text}")
    models = _mapping(strip_nulls(document.value), "")
    return {
        model: {
            name: _amounts(_mapping(resources, f"{model}.{name}"), f"{model}.{name}")
            for name, resources in _mapping(templates, model).items()
        }
        for model, templates in models.items()
    }


def _mapping(found: Any, path: str) -> dict[str, Any]:
    """Return what stands at a path, which must be a mapping; empty where nothing does."""
    if found is None or isinstance(found, dict):
        return found or {}
    raise MalformedTemplates(f"{DATA_KEY}: {path or 'the text'}: expected a mapping: {shown(found)}")


def _amounts(resources: dict[str, Any], path: str) -> dict[str, int]:
    found = {}
    for name, quantity in resources.items():
        try:
            found[name] = value(quantity)
        except (QuantityError, TypeError):  # TypeError: a list or a mapping
            raise MalformedTemplates(f"{DATA_KEY}: {path}[{name}]: expected a quantity: {shown(quantity)}") from None
    return found


class SharedTemplates:
    """The templates of one ConfigMap. `version` counts their changes."""

    def __init__(self, handle: Handle, config_map: ConfigMapName) -> None:
        self.version = 0
        self._handle = handle
        self._config_map = config_map
        self._templates: Templates = {}
        selector = f"metadata.namespace={config_map.namespace},metadata.name={config_map.name}"
        handle.informer(CONFIG_MAP, selector).add_handler(self)

    def matching(self, request: Mapping[str, int]) -> dict[str, Sequence[str]]:
        """Return the names of the templates that are exactly this request of one GPU, by model key; empty when no model has one."""
        found = {
            model: [name for name, resources in templates.items() if resources == request] for model, templates in self._templates.items()
        }
        return {model: sorted(names) for model, names in found.items() if names}

    # Handler of ConfigMaps

    def on_add(self, config_map: Unstructured, _arrival: Arrival) -> None:
        if not self._is_ours(config_map):
            return
        try:
            templates = read_templates(config_map)
        except MalformedTemplates as problem:
            log.warning("GPU shared resource templates cannot be read, and stay as they were", config_map=self._name, problem=str(problem))
            self._handle.malformed_object(CONFIG_MAP.kind)
            self._handle.event_on(config_map, EventText("Warning", INVALID_TEMPLATES_EVENT, "Scheduling", str(problem)))
        else:
            self._set(templates)

    def on_update(self, old: Unstructured, new: Unstructured) -> None:
        if old.raw.get("data") != new.raw.get("data"):
            self.on_add(new, Arrival.LATER)

    def on_delete(self, config_map: Unstructured, _final_state: FinalState) -> None:
        if self._is_ours(config_map):
            self._set({})

    @property
    def _name(self) -> str:
        return f"{self._config_map.namespace}/{self._config_map.name}"

    def _is_ours(self, config_map: Unstructured) -> bool:
        """Answer whether it is the one; profiles that name several watch all ConfigMaps."""
        return (config_map.metadata.namespace, config_map.metadata.name) == self._config_map

    def _set(self, templates: Templates) -> None:
        if templates != self._templates:
            self._templates = templates
            self.version += 1


class TemplatesByConfigMap:
    """The templates of all profiles: those that name the same ConfigMap share them."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._known: dict[ConfigMapName, SharedTemplates] = {}

    def of(self, config_map: ConfigMapName) -> SharedTemplates:
        found = self._known.get(config_map)
        if found is None:
            found = self._known[config_map] = SharedTemplates(self._handle, config_map)
        return found


def shared_templates(handle: Handle, namespace: str, name: str) -> SharedTemplates:
    """Return the templates of a ConfigMap. To be called while the plugin is made."""
    return handle.cache.shared.one(TemplatesByConfigMap, lambda: TemplatesByConfigMap(handle)).of(ConfigMapName(namespace, name))
