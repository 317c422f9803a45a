"""What is generated for which plugins. Plugins that come later add a module with their generator, and one line here."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from support.differential.koordinator import device_plugins, deviceshare, loadaware, nodenumaresource
from support.differential.koordinator.generated import GeneratedTrial

AREAS: dict[str, Callable[[Random], GeneratedTrial]] = {
    "loadaware": loadaware.trial,
    "deviceshare": deviceshare.trial,
    "device-plugins": device_plugins.trial,
    "nodenumaresource": nodenumaresource.trial,
}
