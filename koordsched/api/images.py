"""Names of container images, as ImageLocality compares them (framework.md §10.6)."""

from __future__ import annotations


def normalized_image_name(image: str) -> str:
    """Return the name with its tag: ":latest" is appended when there is neither a tag nor a digest after the last "/"."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
