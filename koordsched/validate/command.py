"""The command: files in, one line a problem out. 0: no problem, 1: a problem, or a file that cannot be read."""

from __future__ import annotations

from collections import Counter
from typing import TextIO

import msgspec

from koordsched.api.kinds import ELASTIC_QUOTA, ELASTIC_QUOTA_PROFILE
from koordsched.config.errors import near_miss
from koordsched.config.features import parse_bool
from koordsched.plugins import tooling
from koordsched.quotas.rules import QuotaGates
from koordsched.validate.findings import Findings
from koordsched.validate.objects import ManifestReader, check_with_plugins
from koordsched.validate.quotas import QuotaValidation

GATES = {
    "MultiQuotaTree": "multi_quota_tree",
    "ElasticQuotaGuaranteeUsage": "guarantee_usage",
    "ElasticQuotaEnableUpdateResourceKey": "update_resource_key",
    "DisableDefaultQuota": "disable_default_quota",
    "SupportParentQuotaSubmitPod": "support_parent_quota_submit_pod",
    "EnableQuotaAdmission": "enable_quota_admission",
}
"""koord-manager's feature gates that decide about quotas."""


class ValidateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """objects: files and directories to check. cluster: those with what is there already. output: "text" or "yaml"."""

    objects: tuple[str, ...]
    cluster: tuple[str, ...] = ()
    gates: QuotaGates = QuotaGates()
    output: str = "text"


def read_gates(text: str) -> QuotaGates:
    """Read `Gate=true,Other=false`. ValueError says what is wrong."""
    fields: dict[str, bool] = {}
    for pair in filter(None, (pair.strip() for pair in text.split(","))):
        name, _, value = pair.partition("=")
        switch = parse_bool(value)
        if name not in GATES:
            raise ValueError(f"{name!r} is no feature gate that decides about quotas{near_miss(name, GATES)}")
        if switch is None:
            raise ValueError(f"{name}: {value!r}: expected true or false")
        fields[GATES[name]] = switch
    return QuotaGates(**fields)


def run_validate(options: ValidateOptions, out: TextIO, err: TextIO) -> int:
    """Check the files; lines on problems go to `err`, to `out` a summary, or the objects that are not as they were given."""
    findings, ignored = Findings(), Findings()
    there = ManifestReader(ignored).read(options.cluster) if options.cluster else []
    findings.unreadable += ignored.unreadable
    reader = ManifestReader(findings)
    objects = reader.read(options.objects)
    check_with_plugins(objects, tooling(), findings)
    QuotaValidation(there, objects, options.gates, findings).run()
    problems = findings.problems
    err.writelines(f"{line}\n" for line in (*findings.warnings, *problems))
    err.writelines(f"note: left out: {count} {kind}\n" for kind, count in reader.left_out.items())
    if options.output == "yaml":
        _write_yaml(findings, out)
    else:
        kinds = Counter(checked.manifest.kind.kind for checked in objects)
        counted = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        out.write(f"{len(objects)} objects{f' ({counted})' if counted else ''}: {_number(len(problems), 'problem')}\n")
        if findings.written and ELASTIC_QUOTA.kind in kinds.keys() | {ELASTIC_QUOTA_PROFILE.kind}:
            out.write(f"{_number(len(findings.written), 'object')} would be filled in or made: -o yaml shows them\n")
    return 1 if problems else 0


def _write_yaml(findings: Findings, out: TextIO) -> None:
    import yaml  # noqa: PLC0415  # 20 ms

    yaml.dump_all(findings.written, out, Dumper=yaml.CSafeDumper, sort_keys=False, explicit_start=True, allow_unicode=True)


def _number(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"
