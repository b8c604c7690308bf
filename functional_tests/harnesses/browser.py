"""A real browser, headless: Debian's chromium, driven by its chromedriver."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from jobboard.testing import eventually

AXE = Path(__file__).parent.parent / "vendor" / "axe.min.js"
#: Seconds; a busy machine needs some.
DEADLINE = 30.0
DESKTOP, PHONE = (1280, 900), (390, 844)
_OPTIONS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars")
_RUN_AXE = """
const done = arguments[0];
axe.run({resultTypes: ["violations"], preload: false}).then(
  (found) => done(found.violations.map((one) => [one.id, one.help, one.nodes.map((node) => node.html)])),
  (error) => done([["axe failed", String(error), []]]));
"""


class Browser:
    """One browser with one window."""

    def __init__(self, driver: Chrome, root: str = "") -> None:
        self.driver = driver
        self.root = root
        self.resize(DESKTOP)

    def open(self, path: str) -> None:
        self.driver.get(f"{self.root}{path}")

    def script(self, text: str, *arguments: object) -> Any:
        return self.driver.execute_script(text, *arguments)

    def find(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self) -> str:
        """Return what the page shows."""
        return str(self.script("return document.body.innerText"))

    def click(self, words: str, within: str = "body") -> None:
        """Click the first button or link that has just these words, and wait until the next page is there."""
        xpath = f".//*[self::a or self::button or self::summary][normalize-space()={words!r}]"
        place = self.find(within)[0]
        place.find_element(By.XPATH, xpath).click()

    def eventually_shows(self, words: str) -> None:
        """Load the page again and again until it shows these words."""

        def shows() -> bool:
            self.driver.refresh()
            return words in self.text()

        eventually(shows, within=DEADLINE, every=0.1)

    def messages(self) -> list[str]:
        """Return what the console of the browser was told since the last call: errors, and violations of policies."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]

    def faults_of_access(self) -> list[Any]:
        """Return what axe-core finds on this page."""
        self.script(AXE.read_text())
        return list(self.driver.execute_async_script(_RUN_AXE))

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        return int(self.script("const page = document.documentElement; return page.scrollWidth - page.clientWidth"))

    def resize(self, size: tuple[int, int]) -> None:
        width, height = size
        how = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", how)

    def prefer(self, scheme: Literal["light", "dark"]) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    @contextlib.contextmanager
    def without_javascript(self) -> Iterator[None]:
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@contextlib.contextmanager
def browser(*arguments: str) -> Iterator[Browser]:
    """Start a browser with further arguments; skips the test where there is none."""
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        pytest.skip("the packages chromium and chromium-driver are missing: apt-get install them")
    options = ChromeOptions()
    options.binary_location = str(programs[0])
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for option in (*_OPTIONS, *arguments):
        options.add_argument(option)
    driver = Chrome(options, Service(str(programs[1])))
    try:
        driver.set_page_load_timeout(60)
        driver.set_script_timeout(60)
        yield Browser(driver)
    finally:
        driver.quit()
