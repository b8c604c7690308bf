// Keys for those who prefer them: "/" finds, "g" and a letter goes to a page, "j" and "k" move in the table; "?" lists them. They can be turned off.
(() => {
  "use strict";
  const KEY = "jobboard.keys", PATIENCE = 1500;
  const list = document.getElementById("keys"), button = document.getElementById("list-keys");
  const choice = list.querySelector("[type=checkbox]");
  const stored = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const store = (value) => { try { localStorage.setItem(KEY, value); } catch { /* private windows */ } };

  const find = () => {
    const field = document.querySelector("main [type=search]") ?? document.getElementById("find");
    field?.focus(); field?.select();
  };
  const go = (letter) => { document.querySelector(`[data-go="${CSS.escape(letter)}"]`)?.click(); };
  const toggle = () => { if (list.open) { list.close(); } else { list.showModal(); } };

  // The row that is looked at, by its id: a refresh may bring other rows.
  let at = "";
  const rows = () => [...document.querySelectorAll("main tbody tr[id]")];
  const row = () => rows().find(({ id }) => id === at);
  const mark = () => rows().forEach((one) => one.classList.toggle("at", one.id === at));
  const move = (step) => {
    const all = rows(), index = all.findIndex(({ id }) => id === at);
    const next = all[Math.min(all.length - 1, Math.max(0, index + step))];
    at = next?.id ?? "";
    mark();
    next?.scrollIntoView({ block: "nearest" });
  };
  const open = () => row()?.querySelector("a[href]")?.click();
  const tick = () => row()?.querySelector("[type=checkbox]")?.click();
  // Asks first, as the button does.
  const restore = () => {
    if (document.querySelector("main [name=job]:checked")) { document.querySelector("main button[name=action][value=restore]")?.click(); }
  };
  const ACTIONS = { "?": toggle, "/": find, j: () => move(1), k: () => move(-1), x: tick, r: restore };

  let goes = 0;
  const press = (event) => {
    const { key, target } = event;
    const isTyped = target.closest?.("input:not([type=checkbox]), select, textarea, [contenteditable]");
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || isTyped || !choice.checked) { return; }
    const isGoing = Date.now() - goes < PATIENCE;
    goes = key === "g" && !isGoing ? Date.now() : 0;
    // Enter on a link or a button is theirs.
    const isOpening = key === "Enter" && row() && !target.closest?.("a, button, summary, input");
    const action = list.open ? (key === "?" ? toggle : null) : isGoing ? () => go(key) : isOpening ? open : Object.hasOwn(ACTIONS, key) ? ACTIONS[key] : null;
    if (action) { event.preventDefault(); action(); }
  };

  choice.checked = stored() !== "off";
  choice.addEventListener("change", () => store(choice.checked ? "on" : "off"));
  list.querySelector("button").addEventListener("click", () => list.close());
  button.addEventListener("click", toggle);
  button.hidden = false;
  document.addEventListener("keydown", press);
  document.addEventListener("jobboard:refreshed", mark);
})();
