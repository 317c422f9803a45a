"""A table of pods that come and go, and perhaps one of nodes, by the schema of docs/simulate.md "Tables of pods" -> a workload.

A table's columns are read by name, each by the reader of its type. A mistake in a row does not end the reading: all of them are named at
once, each with file, place, column and value. What only the API can judge (names, labels) it judges when the object is created.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from koordsched.api.kinds import DEVICE, NODE, POD, POD_GROUP
from koordsched.api.koordinator.gang_membership import GANG_NAME, MIN_AVAILABLE, POD_GROUP_LABEL
from koordsched.api.koordinator.qos import QOS_CLASS, QosClass
from koordsched.api.koordinator.quota_definitions import QUOTA_NAME
from koordsched.api.quantity import EXPECTED, nano
from koordsched.manifests.completion import complete_node, complete_pod, mapping
from koordsched.manifests.documents import InputError
from koordsched.manifests.objects import Manifest
from koordsched.manifests.strict import nearest
from koordsched.simulate.openb import GPU_CORE, GPU_RATIO, MODEL_LABEL, PERCENT, SHORTEST_RUN, gpu_device, model_affinity
from koordsched.simulate.table_files import Table, open_table
from koordsched.simulate.workload import PodArrival, Workload
from koordsched.yamltext.documents import shown

MOST_MISTAKES = 20
"""Mistakes that are named one by one; of the others their number."""
LATEST_SECOND = 1e11
MOST_GPUS = 1000
PRIORITIES = range(-(2**31), 2**31)

Reader = Callable[[Any], Any]
"""Reads a cell that is not empty. ValueError says what was expected."""


class TraceTime(msgspec.Struct, frozen=True):
    """A time of the table: seconds since its beginning, or, if `is_stamp`, since the Unix epoch."""

    seconds: float
    is_stamp: bool = False


def _text(cell: Any) -> str:
    if isinstance(cell, bool) or not isinstance(cell, str | int):
        raise ValueError("expected a text")
    return str(cell).strip()


def _number(cell: Any) -> float:
    try:
        value = math.nan if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError("expected a number")
    return value


def _whole(cell: Any) -> int:
    value = _number(cell)
    if value != int(value) or int(value) not in PRIORITIES:
        raise ValueError("expected a whole number of 32 bits")
    return int(value)


def _count(cell: Any) -> int:
    value = _whole(cell)
    if value < 1:
        raise ValueError("expected a whole number of at least 1")
    return value


def _seconds(cell: Any) -> float:
    value = cell.total_seconds() if isinstance(cell, timedelta) else _number(cell)
    if not 0 <= value < LATEST_SECOND:
        raise ValueError("expected a number of seconds of at least 0")
    return value


def _moment(cell: Any) -> TraceTime:
    """Read seconds, or a date and a time (without a time zone: UTC)."""
    found = cell
    if isinstance(cell, str):
        try:
            return TraceTime(_seconds(cell))
        except ValueError:
            try:
                found = datetime.fromisoformat(cell.strip())
            except ValueError:
                raise ValueError("expected a number of seconds of at least 0, or a time such as 2026-03-01T12:00:00Z") from None
    if isinstance(found, datetime):
        return TraceTime((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp(), is_stamp=True)
    return TraceTime(_seconds(found))


def _amount(cell: Any) -> str:
    """Read a quantity; a number means cores, bytes or units."""
    try:
        text = str(cell).strip()
        if isinstance(cell, bool) or nano(text) < 0:
            raise ValueError
    except ValueError:
        raise ValueError(f"expected {EXPECTED}, not negative") from None
    return text


def _gpus(cell: Any) -> int:
    """Read a number of GPUs into percent of one: a share of one, or whole ones."""
    value = _number(cell)
    percent = math.ceil(round(value * PERCENT, 6))
    if not 0 <= value <= MOST_GPUS or (value > 1 and value != int(value)):
        raise ValueError("expected a share of a GPU between 0 and 1, or a whole number of GPUs")
    return percent


def _whole_gpus(cell: Any) -> int:
    value = _gpus(cell)
    if value % PERCENT:
        raise ValueError("expected a whole number of GPUs")
    return value // PERCENT


def _qos(cell: Any) -> str:
    known = [qos.value for qos in QosClass if qos]
    if cell not in known:
        raise ValueError(f"expected one of {', '.join(known)}")
    return str(cell)


def _pairs(cell: Any) -> dict[str, str]:
    """Read `a=b,c=d`, a JSON object of texts, or a map of Parquet."""
    try:
        found = json.loads(cell) if isinstance(cell, str) and cell.lstrip().startswith("{") else cell
        if isinstance(found, str):
            found = [pair.split("=", 1) for pair in found.split(",")]
        made = dict(found)
    except (TypeError, ValueError, RecursionError):
        made = {None: None}
    if not all(isinstance(key, str) and isinstance(value, str) for key, value in made.items()):
        raise ValueError("expected key=value,key=value or a JSON object of texts")
    return {key.strip(): value.strip() for key, value in made.items()}


def _object(cell: Any) -> dict[str, Any]:
    try:
        found = json.loads(cell) if isinstance(cell, str) else cell
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("expected a JSON object")
    return found


def _owner(cell: Any) -> dict[str, Any]:
    kind, slash, name = _text(cell).partition("/")
    if kind not in OWNERS or not name or not slash:
        raise ValueError(f"expected KIND/NAME with a kind of {', '.join(OWNERS)}")
    return {"apiVersion": OWNERS[kind], "kind": kind, "name": name, "uid": f"{kind}-{name}".lower(), "controller": True}


OWNERS = {"DaemonSet": "apps/v1", "Job": "batch/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}

SPEC_COLUMNS: dict[str, Reader] = {
    "cpu": _amount,
    "memory": _amount,
    "gpu": _gpus,
    "gpu_model": _text,
    "priority": _whole,
    "priority_class": _text,
    "node_selector": _pairs,
    "scheduler": _text,
    "spec": _object,
}
POD_COLUMNS: dict[str, Reader] = {
    "name": _text,
    "namespace": _text,
    "arrival": _moment,
    "end": _moment,
    "duration": _seconds,
    **SPEC_COLUMNS,
    "qos": _qos,
    "labels": _pairs,
    "annotations": _pairs,
    "gang": _text,
    "gang_min": _count,
    "quota": _text,
    "owner": _owner,
}
NODE_COLUMNS: dict[str, Reader] = {
    "name": _text,
    "cpu": _amount,
    "memory": _amount,
    "pods": _count,
    "gpu": _whole_gpus,
    "gpu_model": _text,
    "labels": _pairs,
    "annotations": _pairs,
    "spec": _object,
}
REQUESTS, ALLOCATABLE = "request.", "allocatable."
"""Beginnings of columns of any other resource."""


class _Mistakes:
    """Collects what is wrong with tables; `check` raises all of it as one InputError."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count = 0

    def add(self, line: str) -> None:
        self._count += 1
        if len(self._lines) < MOST_MISTAKES:
            self._lines.append(line)

    def check(self) -> None:
        more = self._count - len(self._lines)
        if self._count:
            raise InputError("\n".join([*self._lines, *([f"... and {more} more mistakes"] if more else [])]))


class _Row(msgspec.Struct):
    """The cells of a row that are not empty, and what they were read as. place: file and line."""

    place: str
    cells: dict[str, Any]
    values: dict[str, Any]

    def wrong(self, column: str, why: object) -> str:
        return f"{self.place}: {column}: {shown(self.cells.get(column, ''))}: {why}"


class _Rows:
    """The rows of one table that are right; mistakes in the others are added to `mistakes`. other: begins columns of any other resource."""

    def __init__(self, file: str, known: Mapping[str, Reader], other: str, required: tuple[str, ...], mistakes: _Mistakes) -> None:
        self._file = file
        self._mistakes = mistakes
        self._required = required
        self.table: Table = open_table(file)
        missing = [column for column in required if column not in self.table.columns]
        if missing:
            raise InputError(f"{file}: line 1: no column {', '.join(missing)}; the columns that are read are {', '.join(known)}")
        found = {column: _amount if column.startswith(other) else known.get(column) for column in self.table.columns}
        self._readers = {column: reader for column, reader in found.items() if reader is not None}
        unknown = [
            f"{column}{nearest(column, known).partition('; known')[0]}" for column in self.table.columns if column not in self._readers
        ]
        self.notes = [f"note: {file}: left out: column {column}" for column in unknown]

    def __iter__(self) -> Iterator[_Row]:
        columns = self.table.columns
        try:
            for place, cells in self.table.rows:
                row = _Row(f"{self._file}: {place}", {}, {})
                if len(cells) != len(columns):
                    self._mistakes.add(f"{row.place}: {len(cells)} cells, and the header has {len(columns)}")
                    continue
                row.cells = {column: cell for column, cell in zip(columns, cells, strict=True) if not _is_empty(cell)}
                if self._read(row):
                    yield row
        except InputError as mistake:  # the file ends here for us
            self._mistakes.add(str(mistake))

    def _read(self, row: _Row) -> bool:
        is_right = True
        for column in self._required:
            if column not in row.cells:
                self._mistakes.add(row.wrong(column, "expected a value"))
                is_right = False
        for column, reader in self._readers.items():
            if column in row.cells:
                try:
                    row.values[column] = reader(row.cells[column])
                except ValueError as mistake:
                    self._mistakes.add(row.wrong(column, mistake))
                    is_right = False
        return is_right


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip()) or (isinstance(cell, float) and math.isnan(cell))


def add_tables(workload: Workload, trace: str, nodes: str | None, pods: str, scheduler_name: str) -> None:
    """Add the nodes and the pods of tables to a workload. trace: the format that the pods are to have; scheduler_name: that of pods that
    name none. InputError: a file cannot be read, or the mistakes in the rows, one a line."""
    mistakes = _Mistakes()
    if nodes is not None:
        node_rows = _Rows(nodes, NODE_COLUMNS, ALLOCATABLE, ("name", "cpu", "memory"), mistakes)
        workload.notes += node_rows.notes
        for row in node_rows:
            workload.existing += _node_objects(row)
    pod_rows = _Rows(pods, POD_COLUMNS, REQUESTS, ("name",), mistakes)
    if pod_rows.table.format != trace:
        raise InputError(f"{pods}: is {pod_rows.table.format}: say --trace {pod_rows.table.format}")
    workload.notes += pod_rows.notes
    maker = _PodMaker(scheduler_name, mistakes)
    rows = [row for row in pod_rows if maker.accepts(row)]
    arrivals = maker.arrivals(rows, {manifest.key for manifest in workload.existing if manifest.kind is POD_GROUP})
    mistakes.check()
    workload.arrivals = sorted([*workload.arrivals, *arrivals], key=lambda arrival: arrival.at)


def _node_objects(row: _Row) -> Iterator[Manifest]:
    """Yield the Node of a row, and its Device if it has GPUs."""
    values = row.values
    name, gpus, model = values["name"], values.get("gpu", 0), values.get("gpu_model", "")
    allocatable = {column.removeprefix(ALLOCATABLE): amount for column, amount in values.items() if column.startswith(ALLOCATABLE)}
    allocatable |= {column: values[column] for column in ("cpu", "memory")}
    if "pods" in values:
        allocatable["pods"] = str(values["pods"])
    if gpus:
        allocatable |= dict.fromkeys((GPU_CORE, GPU_RATIO), str(gpus * PERCENT))
    labels = {**({MODEL_LABEL: model} if model else {}), **values.get("labels", {})}
    metadata = {"name": name, "labels": labels, "annotations": values.get("annotations", {})}
    body = {"kind": "Node", "metadata": metadata, "spec": values.get("spec", {}), "status": {"allocatable": allocatable}}
    yield Manifest(row.place, NODE, complete_node(body))
    if gpus:
        yield Manifest(row.place, DEVICE, gpu_device(name, gpus, model))


class _PodMaker:
    """Makes pods of rows. Pods whose cells ask for the same share their spec, which is never written to."""

    def __init__(self, scheduler_name: str, mistakes: _Mistakes) -> None:
        self._scheduler_name = scheduler_name
        self._mistakes = mistakes
        self._specs: dict[tuple[str, ...], dict[str, Any]] = {}
        self._places: dict[tuple[str, str], str] = {}
        self._stamped: bool | None = None  # whether times are dates, as the first one says

    def accepts(self, row: _Row) -> bool:
        """Answer whether the row's values go together; what does not is a mistake."""
        problems = list(self._problems(row))
        for column, why in problems:
            self._mistakes.add(row.wrong(column, why))
        return not problems

    def _problems(self, row: _Row) -> Iterator[tuple[str, str]]:
        values = row.values
        key = (values.get("namespace", "default"), values["name"])
        if key in self._places:
            yield "name", f"is that of the pod of {self._places[key]}, too"
        self._places.setdefault(key, row.place)
        for column in ("arrival", "end"):
            moment = values.get(column)
            if moment is not None:
                self._stamped = moment.is_stamp if self._stamped is None else self._stamped
                if moment.is_stamp != self._stamped:
                    yield column, f"expected {'a date and a time' if self._stamped else 'seconds'}, as in the rows before"
        if "end" in values and "duration" in values:
            yield "duration", "expected nothing, as there is an end"
        if "end" in values and values["end"].seconds < values.get("arrival", TraceTime(0.0)).seconds:
            yield "end", "expected a time after the arrival"
        if "gang_min" in values and "gang" not in values:
            yield "gang_min", "expected a gang, too"
        spec = values.get("spec", {})
        if "containers" in spec:
            yield "spec", "expected no containers: the columns say what the pod requests"
        if "gpu_model" in values and "affinity" in spec:
            yield "spec", "expected no affinity, as there is a gpu_model"

    def arrivals(self, rows: list[_Row], pod_groups: set[str]) -> list[PodArrival]:
        """Return the pods. pod_groups: the gangs that the input describes; of the others the minimum is all rows, where none is given."""
        members = Counter(_gang_key(row.values) for row in rows if "gang" in row.values)
        stamps = [row.values["arrival"].seconds for row in rows if "arrival" in row.values and self._stamped]
        begun = min(stamps, default=0.0)
        made = []
        for row in rows:
            values = row.values
            metadata = self._metadata(values, members, pod_groups)
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self._spec(row)}
            at = values["arrival"].seconds - begun if "arrival" in values else 0.0
            departs = max(values["end"].seconds - begun, at + SHORTEST_RUN) if "end" in values else None
            runs = max(values["duration"], SHORTEST_RUN) if "duration" in values else None
            made.append(PodArrival(Manifest(row.place, POD, pod), at, departs, runs))
        return made

    def _metadata(self, values: dict[str, Any], members: Mapping[str, int], pod_groups: set[str]) -> dict[str, Any]:
        labels, annotations = dict(values.get("labels", {})), dict(values.get("annotations", {}))
        for column, label in (("qos", QOS_CLASS), ("quota", QUOTA_NAME)):
            if column in values:
                labels[label] = values[column]
        if "gang" in values:
            key = _gang_key(values)
            if key in pod_groups and "gang_min" not in values:
                labels[POD_GROUP_LABEL] = values["gang"]
            else:
                annotations |= {GANG_NAME: values["gang"], MIN_AVAILABLE: str(values.get("gang_min", members[key]))}
        owner = {"ownerReferences": [values["owner"]]} if "owner" in values else {}
        named = {"name": values["name"], "namespace": values.get("namespace", "default")}
        return {**named, "labels": labels, "annotations": annotations, **owner}

    def _spec(self, row: _Row) -> dict[str, Any]:
        key = tuple(f"{column} {cell!r}" for column, cell in row.cells.items() if column in SPEC_COLUMNS or column.startswith(REQUESTS))
        found = self._specs.get(key)
        if found is None:
            found = self._specs[key] = self._new_spec(row.values)
        return found

    def _new_spec(self, values: dict[str, Any]) -> dict[str, Any]:
        requests = {column.removeprefix(REQUESTS): amount for column, amount in values.items() if column.startswith(REQUESTS)}
        requests |= {column: values[column] for column in ("cpu", "memory") if column in values}
        if values.get("gpu"):
            requests |= dict.fromkeys((GPU_CORE, GPU_RATIO), str(values["gpu"]))
        fields = {
            "priority": "priority",
            "priority_class": "priorityClassName",
            "node_selector": "nodeSelector",
            "scheduler": "schedulerName",
        }
        spec = {name: values[column] for column, name in fields.items() if column in values}
        if "gpu_model" in values:
            spec["affinity"] = model_affinity(values["gpu_model"])
        body = complete_pod({"resources": {"requests": requests}, "spec": {**values.get("spec", {}), **spec}}, self._scheduler_name)
        return {**mapping(body["spec"]), "terminationGracePeriodSeconds": 0}


def _gang_key(values: Mapping[str, Any]) -> str:
    return f"{values.get('namespace', 'default')}/{values['gang']}"
