"""Pictures of each page, on a desktop, a phone and in the dark, and what must hold on all of them.

They are for people to look at. ``JOBBOARD_PICTURES=FOLDER`` keeps them; those of the guide are in ``doc/_static``.
"""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from harnesses.browser import DEADLINE, DESKTOP, PHONE, Browser, browser
from harnesses.console_in_process import console_in_process
from harnesses.console_scenes import happen, night, shop

from jobboard import fetch
from jobboard.console import RIGHTS, allow
from jobboard.testing import eventually, memory_board

# Each page is loaded once, and looked at several times.
pytestmark = [pytest.mark.timeout(400), pytest.mark.turn_of("pictures of the console")]

_PAGES = (
    "", "jobs", "jobs?state=delayed", "trash", "names", "lanes", "conductors", "schedules", "events", "health",
)  # fmt: skip
#: Which pages but overviews are looked at in the dark: axe-core has judged the colours of all (test_console_browser).
_DARK = {"boards", "shop-jobs", "shop-job", "shop-graph", "night-trash"}
#: Pixels of a picture; a page may be longer.
_TALLEST = 1180
#: Texts that stand on each other, or that are cut off where nothing can be scrolled.
_FAULTS = """
const faults = [], spots = [];
const isHidden = (one) => one.closest(".hide, [hidden], details:not([open]) > :not(summary), dialog:not([open])");
const walker = document.createTreeWalker(document.querySelector("body"), NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const text = walker.currentNode, holder = text.parentElement;
  if (!text.data.trim() || isHidden(holder) || holder.closest("script, style, select, .skip, svg title")) { continue; }
  // An ellipsis says that there is more, a title has all of it, and the boxes of what is left out are anywhere.
  const titled = holder.closest("[title]");
  if (titled && getComputedStyle(titled).textOverflow === "ellipsis") { continue; }
  const range = document.createRange();
  range.selectNodeContents(text);
  for (const box of range.getClientRects()) {
    if (box.width > 1 && box.height > 1) { spots.push([box, text.data.trim().slice(0, 40), holder]); }
  }
}
const scrolls = (one) => /auto|scroll/.test(getComputedStyle(one).overflowX);
for (const [box, text, holder] of spots) {
  let part = holder;
  while (part && !scrolls(part) && getComputedStyle(part).overflowX !== "hidden") { part = part.parentElement; }
  const edge = part?.getBoundingClientRect();
  const isCut = edge && !scrolls(part) && (box.right > edge.right + 1 || box.left < edge.left - 1);
  if (isCut) { faults.push(`cut: ${text}`); }
}
spots.sort(([one], [other]) => one.top - other.top);
spots.forEach(([one, text], index) => {
  for (let next = index + 1; next < spots.length && spots[next][0].top < one.bottom - 4; next++) {
    const [other, words] = spots[next];
    if (Math.min(one.right, other.right) - Math.max(one.left, other.left) > 3) { faults.push(`${text} on ${words}`); }
  }
});
return faults.slice(0, 5);
"""


class Gallery:
    """Takes pictures of pages, and checks that nothing on them is cut off or covered."""

    def __init__(self, web: Browser, folder: Path) -> None:
        self.web, self._folder = web, folder
        #: The names of the pictures.
        self.taken: list[str] = []

    def show(self, name: str, path: str, charts: int = 0) -> None:
        """Look at a page on a desktop and on a phone; at an overview in the dark too, and once its charts are drawn."""
        web = self.web
        web.open(path)
        if charts:
            eventually(lambda: len(web.find(".chart canvas")) == charts, within=DEADLINE)
        self._take(name, "desktop")
        if charts or name in _DARK:
            web.prefer("dark")
            self._take(name, "dark")
            web.prefer("light")
        web.resize(PHONE)
        self._take(name, "phone")
        web.resize(DESKTOP)

    def _take(self, name: str, look: str) -> None:
        web, height = self.web, self.web.script("return document.documentElement.scrollHeight")
        assert web.overflow() == 0, (name, look)
        assert web.script(_FAULTS) == [], (name, look)
        width = (PHONE if look == "phone" else DESKTOP)[0]
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, _TALLEST), "scale": 1}
        how = {"format": "webp", "quality": 35, "clip": clip, "captureBeyondViewport": True}
        picture = web.driver.execute_cdp_cmd("Page.captureScreenshot", how)["data"]
        (self._folder / f"console-{name}-{look}.webp").write_bytes(base64.b64decode(picture))
        self.taken.append(f"{name}-{look}")


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gallery]:
    folder = Path(os.environ.get("JOBBOARD_PICTURES") or tmp_path_factory.mktemp("pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as web:
        yield Gallery(web, folder)


def test_each_page_is_whole_on_a_desktop_a_phone_and_in_the_dark(gallery: Gallery) -> None:
    with contextlib.ExitStack() as opened:
        full, retried = opened.enter_context(shop())
        orders, failed = opened.enter_context(night())
        boards = {"shop": full, "orders": orders, "new": opened.enter_context(memory_board("new"))}
        boards["lost"] = fetch("lost", "redis://127.0.0.1:1")
        web = gallery.web
        web.root = opened.enter_context(console_in_process(boards, access=allow(*RIGHTS), who=lambda _: "ada"))
        web.open("/b/shop/events")
        happen(full)
        gallery.show("boards", "/")
        for page in _PAGES:
            gallery.show(_name_of("shop", page), f"/b/shop/{page}", charts=6 * (page == ""))
            gallery.show(_name_of("new", page), f"/b/new/{page}")
        gallery.show("shop-job", f"/b/shop/jobs/{retried.uuid}")
        graph = next(job for job in full.iterjobs(names={"publish"}))
        gallery.show("shop-graph", f"/b/shop/jobs/{graph.uuid}/graph")
        gallery.show("shop-schedule", "/b/shop/schedule?id=nightly+report")
        for page in ("", "trash", "conductors", "schedules", "jobs?state=trashed&name=invoice"):
            gallery.show(_name_of("night", page), f"/b/orders/{page}", charts=6 * (page == ""))
        gallery.show("night-job", f"/b/orders/jobs/{failed.uuid}")
        gallery.show("night-retry", f"/b/orders/jobs/{failed.uuid}/retry")
        gallery.show("night-bulk", "/b/orders/bulk?action=restore&state=trashed&name=invoice")
        assert web.messages() == []
        gallery.show("night-lost", "/b/lost/jobs")
        assert len(gallery.taken) == len(set(gallery.taken)) > 60


def _name_of(board: str, page: str) -> str:
    return f"{board}-{page.partition('?')[2].partition('&')[0].rpartition('=')[2] or page or 'overview'}"
