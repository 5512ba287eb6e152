"""A headless Chromium for tests of the page: Debian's `chromium` with its `chromium-driver`, driven by selenium.

Where one of the three is missing the tests that ask for it are skipped, and the reason says which.
"""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",  # there is none inside a container that runs as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",  # so that a window's width is the page's
    "--disable-dev-shm-usage",  # a container's /dev/shm may be too small for a page
)


def missing() -> str:
    """What is not there; "" where all is."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed (pip install -e .[test])"
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            return f"no {program} (Debian: apt-get install chromium chromium-driver)"
    return ""


needs_browser = pytest.mark.skipif(bool(missing()), reason=missing() or "all there")


class Browser:
    """One page at a time, with what it said on the console and asked of the network."""

    def __init__(self, driver) -> None:
        self.driver = driver

    def open(self, path: Path, width: int = 1000, dark: bool = False) -> None:
        self.driver.get("about:blank")
        self.console(), self.requests()  # of the page before
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        # focus events come as in a window that has the focus
        self.driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
        self.driver.get(path.as_uri())

    def console(self) -> list[str]:
        """Everything since the last call; a page that is well says nothing."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses asked for since the last call."""
        events = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        return [
            e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"
        ]  # fmt: skip

    def run(self, script: str, *values):
        return self.driver.execute_script(script, *values)

    def text(self, name: str) -> str:
        return self.run("return document.getElementById(arguments[0]).textContent", name)

    def texts(self, names: list[str]) -> list[str]:
        """text() of many in one call."""
        script = "return arguments[0].map((name) => document.getElementById(name).textContent)"
        return self.run(script, names)

    def click(self, name: str) -> None:
        self.run("document.getElementById(arguments[0]).click()", name)

    def choose(self, name: str, index: int) -> None:
        """Turn one of the plate's controls, as a reader would."""
        self.run(
            "const [name, i] = arguments;"
            "const radio = document.querySelector(`input[type=radio][name='${name}'][value='${i}']`);"
            "if (radio) { radio.click(); return; }"
            "const slider = document.getElementById(name); slider.value = String(i);"
            "slider.dispatchEvent(new Event('input', { bubbles: true }));",
            name,
            index,
        )

    def press(self, *keys: str) -> None:
        """Keys to whatever has the focus; a key before the last is held."""
        from selenium.webdriver import ActionChains

        chain = ActionChains(self.driver, duration=0)
        for key in keys[:-1]:
            chain.key_down(key)
        chain.send_keys(keys[-1])
        for key in keys[:-1]:
            chain.key_up(key)
        chain.perform()


@contextmanager
def browser(profile: Path):
    """profile: an empty folder."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
