"""The terms of the pods that are counted: InterPodAffinity's `existing_terms`."""

from __future__ import annotations

import gc
import weakref
from collections import Counter

import pytest
from msgspec.structs import replace
from support.affinity import Far, Near, selector, term, with_affinity
from support.builders import PodBuilder, pod, requirement
from support.counted import cache_of

from koordsched.api.meta import LabelSelector
from koordsched.cache.cache import Cache
from koordsched.plugins.interpodaffinity import existing_terms
from koordsched.plugins.interpodaffinity.existing_terms import ExistingTerm, ExistingTerms, TermKind, existing_terms_of

MANY = 300  # names that make an affinity large


def avoiding(app: str, name: str = "p") -> PodBuilder:
    return with_affinity(pod(name), far=Far(required=[term("zone", {"app": app})]))


def put(cache: Cache, builder: PodBuilder, place: str) -> None:
    cache.set_pod(builder.on(place).info(), place)


def rows_of(owned: ExistingTerm) -> dict[int, int]:
    """Return how many owners are on each row."""
    rows: Counter[int] = Counter()
    for owner in owned.owners:
        rows.update({row: count * owner.terms[owned] for row, count in owner.rows.items()})
    return dict(rows)


def owned(terms: ExistingTerms) -> list[tuple[TermKind, dict[int, int]]]:
    return [(each.kind, rows_of(each)) for each in terms.log]


def test_equal_terms_of_many_pods_are_one_term_with_its_owners_by_row() -> None:
    cache = cache_of("n0", "n1")
    terms = existing_terms_of(cache)
    for name, place in (("a", "n0"), ("b", "n0"), ("c", "n1")):
        put(cache, avoiding("x", name), place)
    assert owned(terms) == [(TermKind.REQUIRED_ANTI, {0: 2, 1: 1})]
    counts = terms.log[0].counts(cache)
    assert counts.array()[:2].tolist() == [2, 1]
    version = counts.version
    cache.remove_pod("uid-default-b")
    assert (counts.array()[:2].tolist(), counts.version != version) == ([1, 1], True)
    assert terms.log[0].counts(cache) is counts


def test_pods_that_are_there_already_are_counted_and_all_profiles_share_the_terms() -> None:
    cache = cache_of("n0")
    put(cache, avoiding("x"), "n0")
    terms = existing_terms_of(cache)
    assert owned(terms) == [(TermKind.REQUIRED_ANTI, {0: 1})]
    assert existing_terms_of(cache) is terms


def test_a_pod_that_a_simulation_adds_counts_until_its_end_and_leaves_no_version_behind() -> None:
    cache = cache_of("n0")
    terms = existing_terms_of(cache)
    put(cache, avoiding("x", "there"), "n0")
    counts = terms.log[0].counts(cache)
    version = counts.version
    place = cache.node("n0")
    assert place is not None
    with cache.simulate(place, add=[avoiding("x", "come").info()], remove=list(place.pods.values())):
        assert counts.total == 1
    with cache.simulate(place, remove=list(place.pods.values())):
        assert counts.total == 0
    assert (counts.total, counts.version) == (1, version)


def test_terms_of_different_kind_or_weight_are_different() -> None:
    cache = cache_of("n0")
    terms = existing_terms_of(cache)
    same = term("zone", {"app": "x"})
    put(cache, with_affinity(pod("p"), Near([same], [(1, same), (2, same)]), Far([same], [(1, same)])), "n0")
    assert [(each.kind, each.weight) for each in terms.log] == [
        (TermKind.REQUIRED, 0),
        (TermKind.REQUIRED_ANTI, 0),
        (TermKind.PREFERRED, 1),
        (TermKind.PREFERRED, 2),
        (TermKind.PREFERRED, -1),
    ]


@pytest.mark.parametrize(
    ("meant", "labels", "found"),
    [
        (selector({"app": "x"}), {"app": "x"}, True),
        (selector({"app": "x"}), {"app": "y"}, False),
        (selector(None, requirement("app", "In", "x", "y")), {"app": "y"}, True),
        (selector(None, requirement("app", "Exists")), {"app": "any"}, True),
        (selector(None, requirement("app", "Exists")), {}, False),
        (selector(None, requirement("app", "NotIn", "x")), {}, True),
        (selector(), {}, True),
        (None, {"app": "x"}, False),
    ],
)
def test_candidates_are_found_by_what_a_pod_must_have(meant: LabelSelector | None, labels: dict[str, str], found: bool) -> None:
    cache = cache_of("n0")
    terms = existing_terms_of(cache)
    put(cache, with_affinity(pod("p"), far=Far(required=[term("zone", meant)])), "n0")
    assert len(list(terms.candidates("default", labels))) == found
    assert list(terms.candidates("elsewhere", labels)) == []


def test_terms_without_owners_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(existing_terms, "MAX_UNOWNED", 4)
    cache = cache_of("n0")
    terms = existing_terms_of(cache)
    terms._limit = 4
    put(cache, avoiding("kept", "kept"), "n0")
    for i in range(6):
        terms.read(avoiding(f"a{i}").build())
    known = {each.term.selector.equal[0][1]: each for each in terms.log}
    assert set(known) == {"kept", "a2", "a3", "a4", "a5"}
    assert terms.generation == 1
    assert rows_of(known["kept"]) == {0: 1}
    cache.remove_pod("uid-default-kept")
    assert rows_of(known["kept"]) == {}
    assert isinstance(terms.log[0], ExistingTerm)


def test_a_cache_that_is_no_longer_in_use_goes_with_its_terms() -> None:
    cache = cache_of("n0")
    gone = weakref.ref(existing_terms_of(cache))
    del cache
    gc.collect()
    assert gone() is None


def test_pods_are_asked_about_no_longer_when_the_terms_that_could_mean_them_are_forgotten() -> None:
    """A pod of many terms, one of which means pods without labels, costs other pods nothing after it has gone."""
    cache = cache_of("n0")
    terms = existing_terms_of(cache)
    far = Far(required=[term(f"key-{i}", selector(None, requirement(f"label-{i}", "NotIn", "x"))) for i in range(MANY)])
    put(cache, with_affinity(pod("p"), far=far), "n0")
    assert (terms.match_unlabelled, terms.match_others, len(terms.label_keys)) == (True, True, MANY)
    cache.remove_pod("uid-default-p")
    gc.collect()
    assert (terms.log, terms.match_unlabelled, terms.match_others, terms.label_keys) == ([], False, False, frozenset())
    put(cache, with_affinity(pod("q"), far=far), "n0")
    assert (terms.match_unlabelled, terms.match_others) == (True, True)


def test_terms_that_select_thousands_of_labels_or_namespaces_go_with_their_pod() -> None:
    """However few terms there are: what a pod named goes with it."""
    cache = cache_of("n0")
    terms = existing_terms_of(cache)
    names = tuple(f"name-{i}" for i in range(MANY))
    for far in (
        Far(required=[term("zone", selector(None, requirement("app", "In", *names)))]),
        Far(preferred=[(1, term("zone", selector(None, requirement("app", "In", *names))))]),
        Far(required=[replace(term("zone", {"app": "x"}), namespaces=names)]),
    ):
        put(cache, with_affinity(pod("p"), far=far), "n0")
        assert len(terms.log) == 1
        cache.remove_pod("uid-default-p")
        del far
        gc.collect()
        assert terms.log == []
