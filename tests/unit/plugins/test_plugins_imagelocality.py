"""ImageLocality: framework.md §10.6."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.builders import PodBuilder, node, pod
from support.plugins import PluginBench

from koordsched.api.core import Container
from koordsched.plugins.imagelocality.plugin import ImageLocality

MIB = 1024 * 1024


def running(*images: str, init: tuple[str, ...] = ()) -> PodBuilder:
    made = pod().build()
    containers = tuple(Container(name=f"c{i}", image=image) for i, image in enumerate(images))
    inits = tuple(Container(name=f"i{i}", image=image) for i, image in enumerate(init))
    return PodBuilder(replace(made, spec=replace(made.spec, containers=containers, init_containers=inits)))


def scores(bench: PluginBench, wanted: PodBuilder) -> dict[str, int] | None:
    return bench.score(ImageLocality(bench), wanted)


def test_an_image_is_worth_its_size_times_the_share_of_nodes_that_have_it() -> None:
    # 700 MiB on 1 of 2 nodes: 350; 100 * (350 - 23) / (1000 - 23) = 33.47
    bench = PluginBench(node("n1").image(700 * MIB, "app:1"), node("n2"))
    assert scores(bench, running("app:1")) == {"n1": 33, "n2": 0}


def test_the_scaled_size_is_truncated_before_it_is_added() -> None:
    # 1/3 of 3 * 2^20 * 300 + 2 bytes is 300 MiB and a rest that is dropped: 100 * (300 - 23) / 977 = 28.35
    bench = PluginBench(node("n1").image(900 * MIB + 2, "app:1"), node("n2"), node("n3"))
    assert scores(bench, running("app:1")) == {"n1": 28, "n2": 0, "n3": 0}
    assert ImageLocality(bench).version(running("app:1").info()) == ((bench.columns.images["app:1"].bit, 300 * MIB),)


def test_images_below_23_mib_are_worth_nothing_and_above_1000_mib_no_more() -> None:
    bench = PluginBench(node("small").image(23 * MIB, "s:1"), node("large").image(5000 * MIB, "l:1"))
    assert scores(bench, running("s:1")) == {"small": 0, "large": 0}
    assert scores(bench, running("l:1")) == {"small": 0, "large": 100}


def test_the_range_grows_with_the_containers_init_containers_included() -> None:
    # all images on the only node: 2000 of 3000 MiB: 100 * (2000 - 23) / (3000 - 23) = 66.4
    bench = PluginBench(node("n").image(1000 * MIB, "a:1").image(1000 * MIB, "b:1"))
    assert scores(bench, running("a:1", "b:1", init=("c:1",))) == {"n": 66}
    assert scores(bench, running("a:1", init=("b:1",))) == {"n": 100}


def test_an_image_that_two_containers_use_counts_twice() -> None:
    # 600 + 600 of 2000 MiB: 100 * (1200 - 23) / (2000 - 23) = 59.5
    bench = PluginBench(node("n").image(600 * MIB, "a:1"))
    assert scores(bench, running("a:1", "a:1")) == {"n": 59}


@pytest.mark.parametrize(("image", "found"), [("app", True), ("app:latest", True), ("app:1", False), ("host:5000/app", False)])
def test_latest_is_appended_when_there_is_no_tag(image: str, found: bool) -> None:
    bench = PluginBench(node("n").image(1000 * MIB, "app:latest"))
    assert scores(bench, running(image)) == {"n": 100 if found else 0}


def test_the_size_of_a_name_is_that_of_the_first_node_that_reported_it() -> None:
    bench = PluginBench(node("n1").image(500 * MIB, "a:1"), node("n2").image(900 * MIB, "a:1"))
    assert scores(bench, running("a:1")) == {"n1": 48, "n2": 48}  # 100 * (500 - 23) / 977 = 48.8


class TestVersion:
    """The version changes exactly when rows whose own images did not change may score differently."""

    def test_it_follows_the_number_of_nodes_and_of_those_with_the_image(self) -> None:
        bench = PluginBench(node("n1").image(700 * MIB, "a:1"), node("n2"))
        plugin, wanted = ImageLocality(bench), running("a:1").info()
        seen = [plugin.version(wanted)]
        bench.set(node("n3"))
        seen.append(plugin.version(wanted))
        bench.set(node("n2").image(700 * MIB, "a:1"))
        seen.append(plugin.version(wanted))
        assert len(set(seen)) == 3

    def test_it_stays_while_only_other_images_come_and_go(self) -> None:
        bench = PluginBench(node("n1").image(700 * MIB, "a:1"), node("n2"))
        plugin = ImageLocality(bench)
        before = plugin.version(running("a:1").info())
        bench.set(node("n2").image(50 * MIB, "b:1"))
        assert plugin.version(running("a:1").info()) == before

    def test_a_pod_whose_images_no_node_has_does_not_depend_on_nodes(self) -> None:
        bench = PluginBench(node("n1"))
        plugin, wanted = ImageLocality(bench), running("a:1").info()
        before = plugin.version(wanted)
        bench.set(node("n2").image(700 * MIB, "b:1"))
        assert plugin.version(wanted) == before

    def test_pods_with_the_same_images_are_alike(self) -> None:
        plugin = ImageLocality(PluginBench())
        assert plugin.sign(running("a", "b").info()) == plugin.sign(running("a", "b").info())
        assert plugin.sign(running("a", "b").info()) != plugin.sign(running("a").info())
