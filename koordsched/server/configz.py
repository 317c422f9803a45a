"""/configz: the configuration in use, with the reference's internal field names (framework.md §1.6, [KEEP]): Go's, so capitalised.

What is empty is null, as a Go slice that nobody filled is, and a whole number has no fraction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.config.types import Config
from koordsched.config.writing import plain

if TYPE_CHECKING:
    from koordsched.config import SchedulerConfiguration

API_VERSION = "kubescheduler.config.k8s.io/v1"
INITIALISMS = {
    "qps": "QPS",
    "urlPrefix": "URLPrefix",
    "enableHTTPS": "EnableHTTPS",
    "tlsConfig": "TLSConfig",
    "httpTimeout": "HTTPTimeout",
    "caFile": "CAFile",
    "caData": "CAData",
    "gcDurationSeconds": "GCDurationSeconds",
    "gcIntervalSeconds": "GCIntervalSeconds",
    "gpuShareUnsupportedModels": "GPUShareUnsupportedModels",
    "gpuSharedResourceTemplatesConfig": "GPUSharedResourceTemplatesConfig",
    "numaScoringStrategy": "NUMAScoringStrategy",
}


def configz(config: SchedulerConfiguration) -> dict[str, Any]:
    """Return the configuration as JSON-like data."""
    found = _capitalised(config)
    if not isinstance(found, dict):
        raise TypeError(f"a configuration is a mapping, not {type(found).__name__}")
    return {"apiVersion": API_VERSION, **found}


def _capitalised(value: Any) -> Any:
    """Return what stands for a value; types of the API, such as a node affinity, have no internal form and keep their names."""
    if isinstance(value, Config):
        fields = msgspec.structs.fields(value)
        return {_name(field.encode_name): _capitalised(getattr(value, field.name)) for field in fields if field.name != "points"}
    if isinstance(value, dict):
        return {key: _capitalised(item) for key, item in value.items()} or None
    if isinstance(value, list | tuple):
        return [_capitalised(item) for item in value] or None
    return None if value == b"" else plain(value)


def _name(key: str) -> str:
    return INITIALISMS.get(key, key[:1].upper() + key[1:])
