// SPDX-License-Identifier: GPL-3.0-or-later
// Search, filters and tabs; begins the page.

const view = { kind: "network", query: "", filters: { state: "", topology: "", host: "" }, column: null, down: false };

function choice(name, label, options) {
  const box = el("select", { id: `filter-${name}`, onchange: () => {
    view.filters[name] = box.value;
    refresh();
  } }, options.map(([value, text]) => el("option", { value }, text)));
  return el("label", {}, el("span", { class: "label" }, label), box);
}

function showBrowse() {
  const search = el("input", {
    id: "search", type: "search", placeholder: "Name, address, MAC, subnet, namespace, host …", autocomplete: "off",
    spellcheck: "false", "aria-label": "Search",
    oninput: () => { view.query = search.value; refresh(); },
    onkeydown: (event) => {
      if (event.key !== "ArrowDown") return;
      event.preventDefault();
      document.querySelector("#list a.open")?.focus();
    },
  });
  const topologies = [...new Set(data.networks.map((one) => one.topology))].filter(Boolean).sort();
  document.getElementById("browse").append(
    el("div", { class: "controls" },
      el("div", { class: "tabs", role: "tablist" }, Object.entries(KINDS).map(([kind, { title }]) => el("button", {
        type: "button", role: "tab", id: `tab-${kind}`, "aria-controls": "list", onclick: () => choose(kind),
      }, title, " ", el("span", { class: "count" })))),
      search,
      choice("state", "State", [["", "all"], ["attention", "needs attention"], ["ready", "ready"]]),
      choice("topology", "Topology", [["", "all"], ...topologies.map((one) => [one, one])]),
      choice("host", "Host", [["", "all"], ...data.hosts.map((one) => [one.name, one.name])])),
    el("div", { id: "list", role: "tabpanel", tabindex: "-1" }));
}

function choose(kind) {
  view.kind = kind;
  view.column = null;
  view.down = false;
  refresh();
}

function refresh() {
  const found = {};
  for (const kind of Object.keys(KINDS)) {
    found[kind] = matching(kind, view.query, view.filters);
    const tab = document.getElementById(`tab-${kind}`);
    tab.setAttribute("aria-selected", String(kind === view.kind));
    tab.tabIndex = kind === view.kind ? 0 : -1;
    tab.querySelector(".count").textContent = found[kind].length.toLocaleString("en");
  }
  table.show(view.kind, found[view.kind], { column: view.column, down: view.down, by: (column) => {
    view.down = view.column === column && !view.down;
    view.column = column;
    refresh();
  } });
}

function keys(event) {
  if (event.key === "Escape" && !document.getElementById("detail").hidden) {
    closeDetail();
  } else if (event.key === "/" && !event.target.closest("input, select, textarea")) {
    event.preventDefault();
    document.getElementById("search").focus();
  } else if (event.target.role === "tab" && ["ArrowLeft", "ArrowRight"].includes(event.key)) {
    const kinds = Object.keys(KINDS);
    const step = event.key === "ArrowRight" ? 1 : kinds.length - 1;
    choose(kinds[(kinds.indexOf(view.kind) + step) % kinds.length]);
    document.getElementById(`tab-${view.kind}`).focus();
  }
}

showTop();
showTiles((kind) => {
  choose(kind);
  document.getElementById("browse").scrollIntoView({ behavior: "smooth" });
});
showAttention();
showBrowse();
const table = new Table(document.getElementById("list"));
refresh();
showFoot();
window.addEventListener("hashchange", showDetail);
document.addEventListener("keydown", keys);
showDetail();
document.documentElement.dataset.ready = String(Math.round(performance.now()));
