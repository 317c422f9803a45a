from __future__ import annotations

import pytest

from koordsched.api.names import (
    is_dns_label,
    is_dns_subdomain,
    is_extended_resource_name,
    is_label_value,
    is_qualified_name,
    is_scalar_resource_name,
    normalized_image_name,
)


@pytest.mark.parametrize("name", ["a", "a-b", "a.b", "1", "a" * 253, "x-1.y-2"])
def test_subdomains_are_lower_case_letters_digits_dashes_and_dots(name: str) -> None:
    assert is_dns_subdomain(name)


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", ".a", "a.", "a..b", "a_b", "a" * 254, "a\n", "ä"])
def test_other_text_is_no_subdomain(name: str) -> None:
    assert not is_dns_subdomain(name)


def test_a_dns_label_has_no_dot_and_63_characters_at_most() -> None:
    assert is_dns_label("a" * 63)
    assert not is_dns_label("a" * 64)
    assert not is_dns_label("a.b")


@pytest.mark.parametrize("key", ["app", "App_1.x", "example.com/app", "a/b", "node.kubernetes.io/unschedulable", "x/" + "a" * 63])
def test_label_keys_are_a_name_with_an_optional_domain(key: str) -> None:
    assert is_qualified_name(key)


@pytest.mark.parametrize("key", ["", "/", "/a", "a/", "a/b/c", "-a", "a-", "A/b", "x/" + "a" * 64, "a b", "a$"])
def test_other_text_is_no_label_key(key: str) -> None:
    assert not is_qualified_name(key)


def test_label_values_may_be_empty() -> None:
    assert is_label_value("")
    assert is_label_value("a.B_c-1")
    assert not is_label_value("-1")
    assert not is_label_value("a" * 64)
    assert not is_label_value("a/b")


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "koordinator.sh/gpu-core", "a/b"])
def test_a_resource_with_a_domain_of_its_own_is_extended(name: str) -> None:
    assert is_extended_resource_name(name)
    assert is_scalar_resource_name(name)


@pytest.mark.parametrize("name", ["kubernetes.io/batch-cpu", "x.kubernetes.io/y", "hugepages-2Mi", "attachable-volumes-csi-x"])
def test_native_prefixed_resources_are_scalar_but_not_extended(name: str) -> None:
    assert is_scalar_resource_name(name)
    assert not is_extended_resource_name(name)


@pytest.mark.parametrize("name", ["cpu", "memory", "pods", "foo", "requests.nvidia.com/gpu", "a/b/c", "UPPER.com/x", "x/"])
def test_other_resources_are_neither(name: str) -> None:
    assert not is_scalar_resource_name(name)
    assert not is_extended_resource_name(name)


@pytest.mark.parametrize(
    ("image", "normalized"),
    [
        ("nginx", "nginx:latest"),
        ("nginx:1.27", "nginx:1.27"),
        ("registry:5000/nginx", "registry:5000/nginx:latest"),
        ("registry:5000/nginx:1", "registry:5000/nginx:1"),
        ("a/b@sha256:0123", "a/b@sha256:0123"),
        ("", ":latest"),
    ],
)
def test_an_image_without_tag_after_the_last_slash_is_the_latest(image: str, normalized: str) -> None:
    assert normalized_image_name(image) == normalized
