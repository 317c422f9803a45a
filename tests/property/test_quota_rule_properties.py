"""Rules of quotas against a plain model of elasticquota.md §15, and profiles against exact sums."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import node
from support.quotas import quota

from koordsched.api.kinds import ELASTIC_QUOTA, ELASTIC_QUOTA_PROFILE
from koordsched.api.koordinator.quota_definitions import PREFIX
from koordsched.api.quantity import nano
from koordsched.api.validation import decode
from koordsched.quotas.defaults import QuotaDefaults, defaults_of
from koordsched.quotas.profiles import profile_writes
from koordsched.quotas.rules import QuotaGates, QuotaRules
from koordsched.quotas.topology import PodsOfQuotas, QuotaTopology

if TYPE_CHECKING:
    from koordsched.api.koordinator.quotas import ElasticQuota, ElasticQuotaProfile

ROOT = "koordinator-root-quota"
NAMES = ("a", "b", "c", "d")
RESOURCES = ("cpu", "memory")


@st.composite
def quotas(draw: st.DrawFn) -> ElasticQuota:
    """Make a quota that is often right beside the others: most limit the same resources, and are below the first two."""
    name = draw(st.sampled_from(NAMES))
    most = draw(st.sampled_from(({"cpu": 4}, {"cpu": 4}, {"cpu": 4, "memory": 4}, {"cpu": 2}, {"cpu": -1})))
    return quota(
        name,
        most=most,
        least=draw(st.sampled_from(({"cpu": 1}, {"cpu": 2}, {"cpu": 3}, {}, {"cpu": 1, "memory": 1}, {"cpu": -1}))),
        parent=draw(st.sampled_from(("", "", "a") if name in {"a", "b"} else ("a", "a", "b", "", "d"))),
        annotations={"namespaces": f'["{draw(st.sampled_from("xy"))}"]'} if draw(st.integers(0, 2)) == 0 else None,
        is_parent=draw(st.sampled_from(("true", "true", "") if name in {"a", "b"} else ("", "", "true"))),
        tree_id=draw(st.sampled_from(("", "", "", "", "t"))),
        allow_force_update=draw(st.sampled_from(("", "", "true"))),
    )


def model(new: ElasticQuota, old: ElasticQuota | None, known: dict[str, ElasticQuota], *, fewer_keys: bool) -> bool:
    """Answer whether the quota is admitted, as the specification's table reads."""

    def label(of: ElasticQuota, key: str) -> str:
        return of.metadata.labels.get(PREFIX + key, "")

    name, most, least = new.metadata.name, new.spec.max, new.spec.min
    parent_name = label(new, "parent") or ROOT
    others = {key: of for key, of in known.items() if key != name}
    children = [of for of in known.values() if label(of, "parent") == name]
    relatives = [of for of in children if of.metadata.name != name]
    namespaces = new.metadata.annotations.get(PREFIX + "namespaces")
    concerned = [*(label(new, key) for key in ("parent", "is-parent", "tree-id")), namespaces, most, least]
    if old is not None:
        before = [*(label(old, key) for key in ("parent", "is-parent", "tree-id")), old.metadata.annotations.get(PREFIX + "namespaces")]
        if [*before, old.spec.max, old.spec.min] == concerned:
            return True
    if namespaces and any(of.metadata.annotations.get(PREFIX + "namespaces") == namespaces for of in others.values()):
        return False
    if any(cast("int", amount) < 0 for amount in (*most.values(), *least.values())):
        return False
    if any(key not in most or cast("int", most[key]) < cast("int", amount) for key, amount in least.items()):
        return False
    if old is not None and (
        label(old, "tree-id") != label(new, "tree-id") or (children and label(old, "is-parent") and not label(new, "is-parent"))
    ):
        return False
    if parent_name in known:
        relatives.append(known[parent_name])
    if any(label(of, "tree-id") != label(new, "tree-id") for of in relatives):
        return False
    if parent_name == ROOT and not label(new, "is-parent"):
        return True
    parent = known.get(parent_name)
    if parent_name != ROOT and (parent is None or not label(parent, "is-parent")):
        return False
    pairs = [(new, child) for child in children] + ([(parent, new)] if parent is not None else [])
    for above, below in pairs:
        if not below.spec.min.keys() <= above.spec.min.keys():
            return False
        if not (below.spec.max.keys() <= above.spec.max.keys() if fewer_keys else below.spec.max.keys() == above.spec.max.keys()):
            return False
    if label(new, "allow-force-update"):
        return True
    sums = [(new.spec.min, children)]
    if parent is not None:
        siblings = [of for of in others.values() if label(of, "parent") == parent_name]
        sums.append((parent.spec.min, [*siblings, new]))
    return all(
        sum(max(cast("int", of.spec.min.get(key, 0)), 0) for of in together) <= max(cast("int", limit.get(key, 0)), 0)
        for limit, together in sums
        for key in RESOURCES
    )


@settings(max_examples=200)
@given(st.lists(st.tuples(quotas(), st.integers(0, 5).map(lambda chance: chance == 0)), min_size=8, max_size=20), st.booleans())
def test_what_the_rules_admit_is_what_the_specification_admits(steps: list[tuple[ElasticQuota, bool]], fewer_keys: bool) -> None:
    topology, known = QuotaTopology(), dict[str, Any]()
    rules = QuotaRules(topology, PodsOfQuotas(), QuotaGates(update_resource_key=fewer_keys))
    for step, past_rules in steps:
        name = step.metadata.name
        old = known.get(name)
        refusals = list(rules.creation(step) if old is None else rules.change(old, step))
        assert (not refusals) == model(step, old, known, fewer_keys=fewer_keys), refusals
        if not refusals or past_rules:  # what is written where no webhook runs
            topology.set(step)
            known[name] = step
    anew = QuotaTopology()
    for each in known.values():
        anew.set(each)
    for name in (*NAMES, ROOT):
        assert anew.children(name) == topology.children(name)
    assert [anew.lists(namespace) for namespace in "xy"] == [topology.lists(namespace) for namespace in "xy"]


@given(quotas(), st.dictionaries(st.sampled_from((*RESOURCES, "gpu")), st.integers(0, 9)))
def test_defaults_are_filled_in_once(new: ElasticQuota, weight: dict[str, int]) -> None:
    text = "{" + ", ".join(f'"{name}": {amount}' for name, amount in weight.items()) + "}"
    new = replace(new, metadata=replace(new.metadata, annotations={PREFIX + "shared-weight": text}))
    topology = QuotaTopology()
    for name in NAMES:
        topology.set(quota(name, tree_id="t"))
    made = defaults_of(new, topology)
    assert isinstance(made, QuotaDefaults)
    completed = made.applied(new)
    assert defaults_of(completed, topology) == QuotaDefaults({}, {})
    assert completed.metadata.labels[PREFIX + "parent"]


shares = st.sampled_from([None, "1", "0.5", "0.333", "0.9"])
offers = st.fixed_dictionaries(
    {}, optional={"cpu": st.integers(1, 10**5).map("{}m".format), "memory": st.integers(0, 10**12), "gpu": st.integers(0, 9)}
)


@given(st.lists(st.tuples(offers, st.booleans()), max_size=6), shares)
def test_a_profile_has_what_its_nodes_have_and_is_written_once(pool: list[tuple[dict[str, Any], bool]], ratio: str | None) -> None:
    nodes = []
    for i, (offered, cordoned) in enumerate(pool):
        made = node(f"n{i}").build()
        nodes.append(replace(made, status=replace(made.status, allocatable=offered), spec=replace(made.spec, unschedulable=cordoned)))
    spec: dict[str, Any] = {"quotaName": "r", "nodeSelector": {}}
    if ratio is not None:
        spec["resourceRatio"] = ratio
    body = {"metadata": {"name": "p", "namespace": "n"}, "spec": spec}
    profile = cast("ElasticQuotaProfile", decode(ELASTIC_QUOTA_PROFILE, body))
    writes = profile_writes(profile, nodes, None)
    root = cast("ElasticQuota", decode(ELASTIC_QUOTA, writes.create))
    for name in RESOURCES:
        total = sum(nano(offered.get(name, 0)) for offered, _ in pool)
        exact = Fraction(total) * Fraction(ratio or "1")
        assert 0 <= exact - nano(root.spec.min[name]) <= (10**6 if name == "cpu" else 10**9) + exact / 2**50
    again = profile_writes(profile, nodes, root)
    assert (again.create, again.patch) == (None, None)
    more = [*nodes, replace(nodes[0], status=replace(nodes[0].status, allocatable={"cpu": "7"}))] if nodes else nodes
    patch = profile_writes(profile, more, root).patch
    assert (patch is not None) == bool(nodes)
