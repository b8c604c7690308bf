// Keys for those who prefer them: "/" finds, "g" and a letter goes to a page, "?" lists them. They can be turned off.
(() => {
  "use strict";
  const KEY = "jobboard.keys", PATIENCE = 1500;
  const list = document.getElementById("keys"), button = document.getElementById("list-keys");
  const choice = list.querySelector("[type=checkbox]");
  const stored = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const store = (value) => { try { localStorage.setItem(KEY, value); } catch { /* private windows */ } };
  const search = () => document.querySelector("main [type=search]");

  const find = () => {
    const field = search();
    const jobs = document.querySelector("[data-go=j]");
    if (field) { field.focus(); field.select(); } else if (jobs) { location.href = `${jobs.href}#find`; }
  };
  const go = (letter) => { document.querySelector(`[data-go="${CSS.escape(letter)}"]`)?.click(); };
  const toggle = () => { if (list.open) { list.close(); } else { list.showModal(); } };

  let goes = 0;
  const press = (event) => {
    const { key, target } = event;
    const isTyped = target.closest?.("input:not([type=checkbox]), select, textarea, [contenteditable]");
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || isTyped || !choice.checked) { return; }
    const isGoing = Date.now() - goes < PATIENCE;
    goes = key === "g" && !isGoing ? Date.now() : 0;
    const action = key === "?" ? toggle : list.open ? null : isGoing ? () => go(key) : key === "/" ? find : null;
    if (action) { event.preventDefault(); action(); }
  };

  choice.checked = stored() !== "off";
  choice.addEventListener("change", () => store(choice.checked ? "on" : "off"));
  list.querySelector("button").addEventListener("click", () => list.close());
  button.addEventListener("click", toggle);
  button.hidden = false;
  document.addEventListener("keydown", press);
  if (location.hash === "#find") { search()?.focus(); }
})();
