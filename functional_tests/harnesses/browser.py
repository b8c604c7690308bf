"""A real browser, headless: Debian's chromium, driven by its chromedriver."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from selenium.common import WebDriverException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

from jobboard.testing import eventually

AXE = Path(__file__).parent.parent / "vendor" / "axe.min.js"
#: Seconds; a busy machine needs some.
DEADLINE = 30.0
DESKTOP, PHONE = (1280, 900), (390, 844)
_OPTIONS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars")
#: What is only for screen readers follows what is shown.
_FIND = """
const [words, within] = arguments;
const shows = (one) => one.innerText.trim() === words || one.firstChild?.textContent.trim() === words;
const parts = [...document.querySelectorAll(within)];
return parts.flatMap((part) => [...part.querySelectorAll("a, button, summary")]).find(shows);
"""
_RUN_AXE = """
const [chosen, done] = arguments;
axe.run({...chosen, resultTypes: ["violations"], preload: false}).then(
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
        """Click the first link or button in that part of the page that shows these words, once it is there."""

        def click() -> bool:
            try:
                found = self.script(_FIND, words, within)
                if found is not None:
                    found.click()
                return found is not None
            except WebDriverException:
                return False  # the page was refreshed meanwhile

        eventually(click, within=DEADLINE, every=0.1)

    def type(self, field: str, text: str) -> None:
        """Type into a field once it is there: a click returns before the next page has come."""
        eventually(lambda: self.find(f"input[name={field}]"), within=DEADLINE)[0].send_keys(text)

    def choose(self, selector: str, value: str) -> None:
        Select(self.find(selector)[0]).select_by_value(value)

    def eventually_shows(self, words: str) -> None:
        """Load the page again and again until it shows these words."""

        def shows() -> bool:
            if words in self.text():
                return True
            self.driver.refresh()
            return words in self.text()

        eventually(shows, within=DEADLINE, every=0.2)

    def messages(self) -> list[str]:
        """Return what the console of the browser was told since the last call: errors, and violations of policies."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]

    def faults_of_access(self, *rules: str) -> list[Any]:
        """Return what axe-core finds on this page, by all its rules or these."""
        if not self.script("return 'axe' in window"):
            self.script(AXE.read_text())
        return list(self.driver.execute_async_script(_RUN_AXE, {"runOnly": rules} if rules else {}))

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
    # Chromium leaves folders of its own among the temporary ones.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        driver = Chrome(options, Service(str(programs[1]), env={**os.environ, "TMPDIR": folder}))
        try:
            driver.set_page_load_timeout(60)
            driver.set_script_timeout(60)
            yield Browser(driver)
        finally:
            driver.quit()
