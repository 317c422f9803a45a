"""A headless Chromium without a network, and what it shows of a page."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1100,1400",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # nothing that a page asks a network for is found
)
DRAW_SECONDS = 120


def needed_programs() -> tuple[str, str]:
    """Return Chromium and its driver. Where they are missing the test is skipped, and with CI set fails."""
    found = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if found[0] and found[1]:
        return found[0], found[1]
    text = "no chromium and chromedriver: make browser installs them (Debian: chromium, chromium-driver)"
    if os.environ.get("CI"):
        pytest.fail(text)
    pytest.skip(text)


@contextmanager
def opened_page(file: Path) -> Iterator[Chrome]:
    """Open a file in a browser with an empty profile, and wait until all its charts are drawn."""
    chromium, chromedriver = needed_programs()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ChromeOptions()
        options.binary_location = chromium
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = Chrome(options=options, service=Service(chromedriver))
        try:
            driver.get(file.resolve().as_uri())
            WebDriverWait(driver, DRAW_SECONDS).until(lambda _: all(driver.execute_script(ARE_DRAWN)))
            yield driver
        finally:
            driver.quit()


ARE_DRAWN = """
return [...document.querySelectorAll("figure[data-chart]")].map(figure => figure.querySelector("svg .mark-group") !== null);
"""

DRAWN = """
const shown = svg => svg.getAttribute("aria-label") || svg.querySelector("[aria-label]").getAttribute("aria-label");
const seen = element => { const box = element.getBoundingClientRect(); return box.width > 0 || box.height > 0; };
return [...document.querySelectorAll("figure[data-chart]")].map(figure => ({
  title: figure.querySelector("h3").textContent,
  description: shown(figure.querySelector("svg")),
  marks: [...figure.querySelectorAll("svg .mark-rect.role-mark path, svg .mark-line.role-mark path, svg .mark-area.role-mark path,"
    + "svg .mark-symbol.role-mark path, svg .mark-rule.role-mark line")].filter(seen).length,
  texts: [...figure.querySelectorAll("svg text")].map(text => text.textContent),
  width: figure.querySelector("svg").getBoundingClientRect().width,
}));
"""


def charts_of(driver: Chrome) -> list[dict[str, Any]]:
    """Return of each chart its title, the description for screen readers, the number of drawn marks that can be seen, and its texts."""
    return list(driver.execute_script(DRAWN))


def complaints_of(driver: Chrome) -> list[str]:
    """Return the lines of the console that are warnings or errors."""
    return [
        entry["message"]
        for entry in driver.get_log("browser")  # type: ignore[no-untyped-call]  # the library has no types there
        if entry["level"] in {"SEVERE", "WARNING"}
    ]
