// The pages work without this file. It adds: a refresh, by events or by time, that can be paused, times on the browser's clock, and many ticks at once.
(() => {
  "use strict";
  const KEY = "jobboard.refresh";
  const label = document.getElementById("refresh");
  const choice = label?.querySelector("select");

  const stored = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const store = (value) => { try { localStorage.setItem(KEY, value); } catch { /* private windows */ } };

  const localTimes = (root) => {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const utc = time.dateTime.slice(0, 19).replace("T", " ");
      // Swedish dates are those of ISO, of 24 hours.
      time.title = `${new Date(time.dateTime).toLocaleString("sv-SE", { timeZoneName: "short" })} (${utc} UTC)`;
    }
  };

  const prepare = (root) => {
    localTimes(root);
    for (const all of root.querySelectorAll(".tick-all")) { all.hidden = false; }
  };

  // The box above ticks all of the page; with Shift, a box ticks all from the last one on.
  let lastTicked = null;
  const tickRange = ({ target, shiftKey }) => {
    if (!target.matches?.("[name=job][type=checkbox], .tick-all")) { return; }
    const boxes = [...document.querySelectorAll("[name=job][type=checkbox]")];
    const ends = [boxes.indexOf(lastTicked), boxes.indexOf(target)].sort((one, other) => one - other);
    const chosen = target.matches(".tick-all") ? boxes : shiftKey && ends[0] >= 0 ? boxes.slice(ends[0], ends[1] + 1) : [];
    for (const box of chosen) { box.checked = target.checked; }
    lastTicked = target;
  };
  document.addEventListener("click", tickRange);

  // The list of boards closes as menus do.
  document.addEventListener("click", ({ target }) => {
    const menu = document.querySelector(".menu[open]");
    if (menu && !menu.contains(target)) { menu.open = false; }
  });

  const main = () => document.getElementById("main");
  const mayRefresh = () => main().dataset.refresh !== "off";
  const isChanged = (field) => field.matches("select")
    ? field.selectedIndex !== Math.max(0, [...field.options].findIndex((option) => option.defaultSelected))
    : field.matches("[type=checkbox]") ? field.checked !== field.defaultChecked : field.value !== field.defaultValue;
  // Nobody's typing, choice or selection is taken away.
  const isBusy = () => {
    const active = document.activeElement;
    const typing = active && main().contains(active) && active.matches("input, select, textarea");
    const changed = [...main().querySelectorAll("input, select, textarea")].some(isChanged);
    return document.hidden || typing || changed || !document.getSelection().isCollapsed;
  };

  // Live: after what happened, though not at once if there is ever more; and now and then, since an event may get lost.
  const SOON = 2, SELDOM = 15, OFTEN = 5;
  let isHeard = false, hasChanged = false;
  const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  const listen = async () => {
    for (let total = ""; ; await pause(0.5)) {
      const url = main().dataset.live;
      if (choice.value !== "live" || !url || document.hidden) { isHeard = false; total = ""; continue; }
      try {
        const answer = await fetch(`${url}${url.includes("?") ? "&" : "?"}since=${total}`);
        if (!answer.ok) { throw new Error(answer.status); }
        const heard = (await answer.json()).total;
        hasChanged ||= isHeard && heard !== total;
        [total, isHeard] = [heard, true];
      } catch { isHeard = false; total = ""; await pause(SELDOM); }
    }
  };
  const wait = () => choice.value !== "live" ? Number(choice.value) : isHeard ? (hasChanged ? SOON : SELDOM) : OFTEN;

  let last = Date.now();
  const tick = async () => {
    const seconds = wait();
    if (seconds && mayRefresh() && !isBusy() && Date.now() - last >= seconds * 1000) {
      hasChanged = false;
      last = Infinity;
      try {
        await htmx.ajax("GET", location.href, { target: "#main", select: "#main", swap: "outerMorph" });
        prepare(main());
        main().dispatchEvent(new CustomEvent("jobboard:refreshed", { bubbles: true }));
      } catch { /* the next one tries again */ } finally {
        last = Date.now();
      }
    }
  };

  // A refresh leaves open what its reader has opened.
  document.addEventListener("htmx:before:morph:node", ({ detail: { oldNode, newNode } }) => {
    if (oldNode.matches?.("details[open]")) { newNode.open = true; }
  });

  // What is chosen is in sight where a row of links is wider than the window.
  for (const chosen of document.querySelectorAll("header nav [aria-current], .tabs [aria-current]")) {
    const row = chosen.closest("nav, .tabs"), [inner, outer] = [chosen, row].map((one) => one.getBoundingClientRect());
    row.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
  }

  prepare(document);
  if (choice && window.htmx && mayRefresh()) {
    label.hidden = false;
    choice.value = [...choice.options].some(({ value }) => value === stored()) ? stored() : choice.value;
    choice.addEventListener("change", () => store(choice.value));
    setInterval(tick, 250);
    listen();
  }
})();
