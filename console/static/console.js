// What the pages can do without, and do better with: live numbers, and a note that a list
// has grown. No page needs it.
//
// A live page fetches itself again every few seconds. An element with data-live=NAME
// takes the new content of the element of that name. Rows (data-row) are never moved:
// a list that has new ones says how many, and shows them when asked.
(() => {
  "use strict";
  const every = 5000;
  const footer = document.querySelector("footer .live");
  const live = document.querySelector("[data-live], [data-row]");
  if (!live || !footer) return;

  let paused = false;
  const button = document.createElement("button");
  button.className = "quiet";
  const label = () => { button.textContent = paused ? "Resume live updates" : "Pause live updates"; };
  button.addEventListener("click", () => { paused = !paused; label(); });
  label();
  footer.append(button);
  footer.hidden = false;

  const busy = () => paused || document.hidden || document.querySelector("main dialog[open], main input:checked[data-select]");

  // What the server said last, to be held against what it says now: the page itself is
  // other than that as soon as somebody opens a part of it.
  const served = new Map([...document.querySelectorAll("[data-live]")].map((e) => [e.dataset.live, e.innerHTML]));

  const rows = (doc) => [...doc.querySelectorAll("[data-row]")].map((r) => r.dataset.row);

  function pill(fresh) {
    let note = document.querySelector(".pill");
    if (!note) {
      note = document.createElement("p");
      note.className = "pill";
      note.setAttribute("role", "status");
      const link = document.createElement("a");
      link.className = "chip";
      link.href = location.href;
      note.append(link);
      document.querySelector("main").append(note);
    }
    note.firstChild.textContent = `${fresh} new, show`;
  }

  async function look() {
    if (busy()) return;
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok || answer.redirected) return;
    const doc = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (busy()) return;
    for (const old of document.querySelectorAll("[data-live]")) {
      const now = doc.querySelector(`[data-live="${CSS.escape(old.dataset.live)}"]`);
      const name = old.dataset.live;
      if (!now || now.innerHTML === served.get(name) || old.contains(document.activeElement)) continue;
      old.innerHTML = now.innerHTML;
      served.set(name, now.innerHTML);
    }
    const known = new Set(rows(document));
    const fresh = rows(doc).filter((r) => !known.has(r)).length;
    if (fresh > 0) pill(fresh);
  }

  setInterval(() => look().catch(() => { footer.dataset.lost = "yes"; }), every);
})();

// How many rows of a list are selected, beside the choice to act on them.
(() => {
  "use strict";
  const count = document.querySelector("[data-selected]");
  if (!count) return;
  const show = () => { count.textContent = `(${document.querySelectorAll("input[data-select]:checked").length})`; };
  document.addEventListener("change", show);
  show();
})();
