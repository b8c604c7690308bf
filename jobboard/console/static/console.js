// The pages work without this file. It adds: a refresh that can be paused, and times on the browser's clock.
(() => {
  "use strict";
  const KEY = "jobboard.refresh";
  const label = document.getElementById("refresh");
  const choice = label?.querySelector("select");

  const stored = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const store = (value) => { try { localStorage.setItem(KEY, value); } catch { /* private windows */ } };

  const localTimes = (root) => {
    for (const time of root.querySelectorAll("time[datetime]")) {
      time.title = new Date(time.dateTime).toLocaleString(undefined, { timeZoneName: "short" });
    }
  };

  const main = () => document.getElementById("main");
  const mayRefresh = () => main().dataset.refresh !== "off";
  const isChanged = (field) => field.matches("select")
    ? field.selectedIndex !== Math.max(0, [...field.options].findIndex((option) => option.defaultSelected))
    : field.value !== field.defaultValue || field.checked !== field.defaultChecked;
  // Nobody's typing, choice or selection is taken away.
  const isBusy = () => {
    const active = document.activeElement;
    const typing = active && main().contains(active) && active.matches("input, select, textarea");
    const changed = [...main().querySelectorAll("input, select, textarea")].some(isChanged);
    return document.hidden || typing || changed || !document.getSelection().isCollapsed;
  };

  let last = Date.now();
  const tick = async () => {
    const seconds = Number(choice.value);
    if (seconds && mayRefresh() && !isBusy() && Date.now() - last >= seconds * 1000) {
      last = Infinity;
      try {
        await htmx.ajax("GET", location.href, { target: "#main", select: "#main", swap: "outerMorph" });
        localTimes(main());
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

  localTimes(document);
  if (choice && window.htmx && mayRefresh()) {
    label.hidden = false;
    choice.value = stored() ?? choice.value;
    choice.addEventListener("change", () => store(choice.value));
    setInterval(tick, 250);
  }
})();
