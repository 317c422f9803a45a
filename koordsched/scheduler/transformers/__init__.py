"""What is changed of pods, nodes, devices and quotas before scheduling sees them (frameworkext.md §3): the list, in order, with its gates.

Reading order: `renaming` (resources under the names that scheduling knows), `pods`, `nodes`, and this list. How transformers are applied is
in `framework.transformers`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from koordsched.api.kinds import DEVICE, ELASTIC_QUOTA, NODE, POD, POD_DISRUPTION_BUDGET
from koordsched.api.koordinator.node_reservation import NODE_RESERVATION
from koordsched.framework.transformers import Transformer, Transformers
from koordsched.scheduler.compatibility import BETA_BUDGETS, without_empty_selector
from koordsched.scheduler.transformers.nodes import rename_device_resources, rename_node_resources, rename_quota_resources, trim_reservation
from koordsched.scheduler.transformers.pods import (
    DEVICE_ALLOCATED,
    REPLACE_RESOURCES,
    SCHEDULER_NAME,
    apply_scheduler_name,
    default_preemption_policy,
    default_priority,
    rename_allocated_devices,
    rename_pod_resources,
    replace_resources,
)
from koordsched.scheduler.transformers.renaming import BATCH_RESOURCES, DEVICE_RESOURCES

if TYPE_CHECKING:
    from koordsched.config.features import FeatureGates
    from koordsched.scheduler.transformers.pods import Report

BATCH, DEVICES = frozenset(BATCH_RESOURCES), frozenset(DEVICE_RESOURCES)


def standard_transformers(gates: FeatureGates, report: Report) -> Transformers:
    """Return the transformers in the order in which they are applied. report: called with an object and what is wrong with it."""
    listed: list[tuple[str, Transformer]] = [  # the gate, "" for what is always done
        ("", Transformer(name="batch resources", kind=POD, transform=partial(rename_pod_resources, BATCH_RESOURCES), resources=BATCH)),
        ("", Transformer(name="device resources", kind=POD, transform=partial(rename_pod_resources, DEVICE_RESOURCES), resources=DEVICES)),
        (
            "",
            Transformer(
                name="allocated devices",
                kind=POD,
                transform=partial(rename_allocated_devices, report),
                annotations=frozenset({DEVICE_ALLOCATED}),
            ),
        ),
        (
            "ReplaceResourcesTransformer",
            Transformer(name="replaced resources", kind=POD, transform=replace_resources, annotations=frozenset({REPLACE_RESOURCES})),
        ),
        ("PriorityTransformer", Transformer(name="default priority", kind=POD, transform=partial(default_priority, report))),
        ("PreemptionPolicyTransformer", Transformer(name="preemption policy", kind=POD, transform=default_preemption_policy)),
        ("", Transformer(name="scheduler name", kind=POD, transform=apply_scheduler_name, labels=frozenset({SCHEDULER_NAME}))),
        # The reservation comes last: it is taken off the amounts under their new names.
        ("", Transformer(name="batch amounts", kind=NODE, transform=partial(rename_node_resources, BATCH_RESOURCES), resources=BATCH)),
        ("", Transformer(name="device amounts", kind=NODE, transform=partial(rename_node_resources, DEVICE_RESOURCES), resources=DEVICES)),
        (
            "",
            Transformer(
                name="node reservation",
                kind=NODE,
                transform=partial(trim_reservation, report),
                annotations=frozenset({NODE_RESERVATION}),
            ),
        ),
        ("", Transformer(name="devices", kind=DEVICE, transform=rename_device_resources)),
        ("", Transformer(name="quotas", kind=ELASTIC_QUOTA, transform=rename_quota_resources)),
        (BETA_BUDGETS, Transformer(name="budgets of v1beta1", kind=POD_DISRUPTION_BUDGET, transform=without_empty_selector)),
    ]
    return Transformers([transformer for gate, transformer in listed if not gate or gates[gate]])
