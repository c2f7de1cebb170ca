// Live updates of the page. Without this script the page is whole, and reloads by itself.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const rows = byId("rows");
  const live = byId("live");
  const pause = byId("pause");
  let ahead = Number(document.body.dataset.now) - Date.now(); // the server's clock minus this one's
  let source = null;
  let paused = false;
  let heard = Date.now();
  let shown = ""; // the figures
  let old = Number(document.body.dataset.old); // while the database does not answer: the time of its last answer

  // span is a duration in words: the same as in Go.
  const span = (ms) => {
    const s = Math.max(0, Math.floor(ms / 1000));
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
  };

  // count moves all times on, as of now.
  const count = () => {
    const now = old || Date.now() + ahead;
    for (const e of document.querySelectorAll("[data-from]")) e.textContent = span(now - Number(e.dataset.from));
    for (const e of document.querySelectorAll("[data-until]")) {
      const left = Number(e.dataset.until) - now;
      if (e.tagName === "METER") e.value = Math.max(0, Math.round(left / 1000));
      else e.textContent = span(left);
    }
  };

  const parse = (html) => {
    const box = document.createElement("template");
    box.innerHTML = html; // made and escaped by the server's templates
    return box.content.firstElementChild;
  };

  const find = (id) => document.querySelector(`[data-id="${CSS.escape(id)}"]`);

  // put shows a key. Cells that are the same stay, and with them the focus.
  const put = ({ id, html }) => {
    const fresh = parse(html);
    const old = find(id);
    if (old) {
      [...fresh.children].forEach((cell, i) => {
        if (old.children[i].outerHTML !== cell.outerHTML) old.children[i].replaceWith(cell.cloneNode(true));
      });
      return;
    }
    if (!rows) {
      byId("facts")?.replaceChildren(fresh);
      return;
    }
    const next = [...rows.children].find((row) => row.dataset.id > id); // the order of the IDs is that of the keys
    rows.insertBefore(fresh, next || null);
  };

  const text = (e, value) => {
    if (e && e.textContent !== value) e.textContent = value;
  };

  const update = (u) => {
    heard = Date.now();
    ahead = u.at - heard;
    old = u.old;
    document.body.classList.toggle("old", old > 0);
    for (const id of u.gone || []) find(id)?.remove();
    if (rows) {
      if (u.whole) {
        const shown = new Set((u.rows || []).map((row) => row.id));
        for (const row of [...rows.children]) if (!shown.has(row.dataset.id)) row.remove();
      }
    }
    for (const row of u.rows || []) put(row);
    if (rows) {
      byId("none").hidden = rows.children.length > 0;
      byId("table").hidden = rows.children.length === 0;
      text(byId("none"), u.none);
      text(byId("caption"), u.caption);
      byId("more").hidden = !u.next;
      byId("more").firstElementChild.setAttribute("href", u.next || "?");
    }
    if (byId("unknown")) byId("unknown").hidden = byId("facts").children.length > 0;
    if (byId("act")) byId("act").hidden = old > 0;
    if (u.losses !== undefined && byId("losses")) byId("losses").innerHTML = u.losses; // as above
    byId("problem").hidden = !u.problem;
    text(byId("problem"), u.problem);
    const summary = byId("summary");
    if (summary && shown !== u.summary) summary.innerHTML = shown = u.summary; // as above
    const needs = byId("needs");
    if (needs && u.needs !== undefined) {
      needs.innerHTML = u.needs;
      needs.hidden = u.needs === "";
    }
    if (old > 0) text(live, u.clock ? `Not live: as of ${u.clock}.` : "Not live.");
    else text(live, `Live, as of ${u.clock}.`);
    count();
  };

  const stop = () => {
    source?.close();
    source = null;
  };
  const start = () => {
    stop();
    heard = Date.now();
    source = new EventSource(document.body.dataset.stream);
    source.onmessage = (e) => update(JSON.parse(e.data));
    source.onerror = () => {
      const over = source.readyState === EventSource.CLOSED;
      text(live, over ? "No live updates: reload the page." : "The connection is interrupted: what is shown is old.");
    };
  };

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on" : "Pause";
    if (paused) {
      stop();
      text(live, `Paused; ${live.textContent.replace("Live, as", "as")}`);
    } else start();
  });
  // A page that nobody sees asks for nothing.
  document.addEventListener("visibilitychange", () => {
    if (paused) return;
    if (document.hidden) stop();
    else start();
  });
  setInterval(() => {
    if (paused || document.hidden) return;
    count();
    if (source && Date.now() - heard > 20000) text(live, "Nothing was heard for 20 s: what is shown is old.");
  }, 1000);
  start();
})();
