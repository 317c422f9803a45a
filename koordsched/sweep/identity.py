"""What the result of a run depends on, as a digest: the configuration, the input, the seed, and the code that runs.

Names do not count: an input or a configuration that is called otherwise has the same results.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

import koordsched
from koordsched.plugins import out_of_tree_packages
from koordsched.simulate.command import SimulateOptions
from koordsched.sweep.format import ConfigurationSource, SweepInput, paths_of, with_paths

OF_THE_CODE = frozenset({".py", ".so", ".pyd", ".json", ".yaml"})
SHOWN_ONLY = ("config", "compare", "show_differences", "output", "show_pending", "shown_pods", "seed")
"""Options of `simulate` on which the numbers do not depend, and the seed, which counts by itself."""


def run_digest(build: str, configuration: ConfigurationSource, source: SweepInput, seed: int) -> str:
    """Return what identifies a run. build: `build_digest()`."""
    parts = [build, _digest(configuration.text), input_digest(source), seed]
    return _digest(msgspec.json.encode(parts))


def input_digest(source: SweepInput) -> str:
    """Return what identifies an input: what its files hold and how they are called, since their endings say how they are read."""
    endings = [Path(path).suffix for path in paths_of(source.options)]
    return _digest(msgspec.json.encode([_plain(source.options), endings, [_digest(content) for content in source.contents]]))


def _plain(options: SimulateOptions) -> dict[str, Any]:
    """Return the options as JSON values, but for what they show and for paths."""
    given = msgspec.structs.asdict(with_paths(options, ["" for _ in paths_of(options)]))
    for name in SHOWN_ONLY:
        del given[name]
    given["node_options"] = [(option.flag, str(value)) for option, value in options.node_options]
    plain: dict[str, Any] = msgspec.to_builtins(given)
    return plain


@cache
def build_digest() -> str:
    """Return what identifies the code: this package and those of out-of-tree plugins, by what their files hold.

    The version alone is not enough: results of a scheduler, or of a plugin, that was changed since would be taken for its own.
    """
    digest = hashlib.sha256(koordsched.__version__.encode())
    for package in (koordsched.__name__, *out_of_tree_packages()):
        for path in _files(package):
            digest.update(f"{package} {path.name} {path.stat().st_size} ".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _files(package: str) -> list[Path]:
    spec = find_spec(package)
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        return [Path(spec.origin)] if spec.origin else []
    roots = [Path(location) for location in spec.submodule_search_locations]
    return [path for root in roots for path in sorted(root.rglob("*")) if path.suffix in OF_THE_CODE and path.is_file()]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
