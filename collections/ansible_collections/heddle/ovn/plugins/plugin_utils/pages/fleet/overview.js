// SPDX-License-Identifier: GPL-3.0-or-later
// The head of the page: totals, the last runs, and what needs attention.

function showTop() {
  const facts = [
    data.revision === null ? null : `revision ${data.revision}`,
    data.digest ? `plan ${data.digest}` : null,
  ].filter(Boolean);
  document.getElementById("top").append(
    el("div", { class: "name" },
      el("h1", {}, el("span", { class: "quiet-word" }, "Fleet"), " ", data.deployment || "without a name"),
      el("p", { class: "facts" }, facts.join(" · "), data.time ? [" · status of ", when(data.time)] : null)),
    el("div", { class: "tools" },
      el("button", { type: "button", id: "theme", onclick: nextTheme }, "Theme"),
      el("button", { type: "button", onclick: () => window.print() }, "Print")));
  setTheme(stored("heddle-theme") || "automatic");
}

// A page that is opened as a file may have no storage.
function stored(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.textContent = `Theme: ${theme}`;
  try { localStorage.setItem("heddle-theme", theme); } catch { /* the choice lasts as long as the page */ }
}

function nextTheme() {
  const themes = ["automatic", "light", "dark"];
  setTheme(themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length]);
}

function totalTile(kind, all, open) {
  const ready = all.filter((one) => isGood(one.state)).length;
  const state = !data.known ? "unknown" : ready === all.length ? "good" : "bad";
  const bar = el("div", { class: `bar ${state}`, "aria-hidden": "true" }, el("span", {}));
  bar.firstChild.style.width = `${all.length ? (100 * ready) / all.length : 0}%`;
  const rest = all.length - ready;
  return el("button", { type: "button", class: "tile total", onclick: open },
    el("span", { class: "label" }, capital(kind)),
    el("span", { class: "figure" }, all.length.toLocaleString("en")),
    el("span", { class: "note" }, !data.known ? "run heddle.ovn.status" : rest ? `${rest} not ready` : "all ready"),
    bar);
}

function runTile(run) {
  const state = run.passed === null ? "no result" : run.passed ? "passed" : "failed";
  const older = Object.entries(run.host_plans).some(([host, digest]) => data.host_plans[host] && data.host_plans[host] !== digest);
  return el("article", { class: "tile run", "data-run": run.name },
    el("span", { class: "label" }, capital(run.name), badge(state)),
    el("span", { class: "note" }, run.summary),
    run.time ? el("span", { class: "note" }, when(run.time), older ? " · of an earlier plan" : null) : null,
    run.lines.length ? el("details", {},
      el("summary", {}, `${run.passed ? "Notes" : "What is wrong"} (${run.lines.length})`),
      el("ul", {}, run.lines.map((line) => el("li", {}, line)))) : null,
    run.links.length ? el("span", { class: "links" }, run.links.map((name) => el("a", { href: name }, name))) : null);
}

function showTiles(open) {
  document.getElementById("tiles").append(
    el("div", { class: "tiles totals" },
      totalTile("hosts", data.hosts, () => open("host")),
      totalTile("networks", data.networks, () => open("network")),
      totalTile("workloads", data.workloads, () => open("workload"))),
    el("div", { class: "tiles" }, data.runs.map(runTile)));
}

// Names at the beginning of a line open what they name.
function attentionLine(text) {
  const [names, rest] = [text.split(": ", 1)[0], text.slice(text.split(": ", 1)[0].length)];
  const parts = names.split(", ").map((name) => {
    if (byName.host.has(name)) return link("host", name);
    if (byObject.has(name)) return link("network", byObject.get(name).name, name);
    if (name.startsWith("Workload/")) return link("workload", name.slice("Workload/".length), name);
    return name;
  });
  return el("li", {}, parts.flatMap((part, number) => (number ? [", ", part] : [part])), rest);
}

function showAttention() {
  const lines = [
    ...data.problems,
    ...data.attention,
    ...data.runs.filter((run) => run.passed === false).map((run) => `${run.name} failed: ${run.summary}`),
  ];
  const section = document.getElementById("attention");
  if (!lines.length) {
    const nothing = data.known ? "Nothing needs attention." : "There is no status.json; run heddle.ovn.status.";
    section.append(el("p", { class: data.known ? "calm" : "notice" }, nothing));
    return;
  }
  const list = el("ul", { class: "attention" }, lines.slice(0, 8).map(attentionLine));
  section.append(el("h2", {}, "Attention ", el("span", { class: "count" }, String(lines.length))), list);
  if (lines.length > 8) {
    const more = el("button", { type: "button", onclick: () => {
      list.append(...lines.slice(8).map(attentionLine));
      more.remove();
    } }, `Show ${lines.length - 8} more`);
    section.append(more);
  }
}

function showFoot() {
  filled(document.getElementById("foot"), {}, [
    data.links.length ? el("p", {}, "Pages: ", data.links.map((name) => [el("a", { href: name }, name), " "])) : null,
    el("p", {}, "Made ", when(data.made), " from the files beside it. Keys: / searches, arrows move, Enter opens, ",
      "Escape closes."),
  ]);
}
