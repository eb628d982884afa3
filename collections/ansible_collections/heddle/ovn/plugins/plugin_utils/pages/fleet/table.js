// SPDX-License-Identifier: GPL-3.0-or-later
// Tables of which the browser has as many rows as were looked at: search and filters work on the data.

const CHUNK = 80;

const KINDS = {
  network: {
    title: "Networks",
    items: data.networks,
    columns: [
      ["Name", (one) => [dot(one), one.name], (one) => one.name],
      ["Id", (one) => (one.id === null ? "–" : String(one.id)), (one) => (one.id === null ? Infinity : one.id)],
      ["Topology", (one) => one.topology], ["Role", (one) => one.role],
      ["Subnets", (one) => lines(one.subnets), (one) => one.subnets.join(" ")],
      ["Namespaces", (one) => few(one.namespaces, one.id === 0 ? "all" : "–"), (one) => one.namespaces.join(" ")],
      ["Workloads", (one) => String(one.users.length), (one) => one.users.length],
      ["Hosts", (one) => String(one.nodes.length), (one) => one.nodes.length],
      ["State", (one) => badge(one.state), (one) => one.state],
    ],
    words: (one) => [one.name, one.id, one.topology, one.role, one.subnets, one.namespaces, one.nodes, one.keys,
      one.state, one.physical, one.object ? objectKey(one.object) : ""],
    onHost: (one, host) => one.nodes.includes(host),
    topology: (one) => one.topology,
  },
  workload: {
    title: "Workloads",
    items: data.workloads,
    columns: [
      ["Name", (one) => [dot(mainNetwork(one)), one.name], (one) => one.name],
      ["Host", (one) => one.node], ["Kind", (one) => one.kind],
      ["Networks", (one) => few(one.interfaces.map((port) => port.network), "–"),
        (one) => one.interfaces.map((port) => port.network).join(" ")],
      ["Addresses", (one) => lines(mainAddresses(one)), (one) => mainAddresses(one).join(" ")],
      ["State", (one) => badge(one.state), (one) => one.state],
    ],
    words: (one) => [one.name, one.node, one.kind, one.state,
      one.interfaces.map((port) => [port.network, port.addresses, port.mac, port.name])],
    onHost: (one, host) => one.node === host,
    topology: (one) => (mainNetwork(one) || {}).topology,
  },
  host: {
    title: "Hosts",
    items: data.hosts,
    columns: [
      ["Name", (one) => one.name], ["Id", (one) => String(one.id), (one) => one.id],
      ["Tunnel address", (one) => lines(one.encap), (one) => one.encap.join(" ")],
      ["Addresses", (one) => lines(one.addresses), (one) => one.addresses.join(" ")],
      ["Gateway", (one) => one.mode || "–"],
      ["Networks", (one) => String(onHost.network.get(one.name) || 0), (one) => onHost.network.get(one.name) || 0],
      ["Workloads", (one) => String(onHost.workload.get(one.name) || 0), (one) => onHost.workload.get(one.name) || 0],
      ["State", (one) => badge(one.state), (one) => one.state],
    ],
    words: (one) => [one.name, one.chassis, one.encap, one.addresses, one.mode, one.state],
    onHost: (one, host) => one.name === host,
    topology: () => null,
  },
};

function counted(items, hosts) {
  const found = new Map();
  for (const one of items) for (const host of hosts(one)) found.set(host, (found.get(host) || 0) + 1);
  return found;
}

const onHost = {
  network: counted(data.networks, (one) => one.nodes),
  workload: counted(data.workloads, (one) => [one.node]),
};

function mainPort(workload) {
  return workload.interfaces.find((port) => port.role === "primary") || workload.interfaces[0];
}

function mainNetwork(workload) {
  const port = mainPort(workload);
  return port ? byName.network.get(port.network) : null;
}

function mainAddresses(workload) {
  const port = mainPort(workload);
  return port ? port.addresses : [];
}

function lines(texts) {
  return texts.length ? texts.map((text) => el("span", { class: "line mono" }, text)) : "–";
}

function few(texts, none) {
  if (!texts.length) return none;
  const more = texts.length > 3 ? ` and ${texts.length - 3} more` : "";
  return el("span", { title: more ? texts.join(", ") : null }, texts.slice(0, 3).join(", ") + more);
}

function compared(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}

for (const kind of Object.values(KINDS)) {
  kind.haystacks = kind.items.map((one) => kind.words(one).flat(Infinity).join(" ").toLowerCase());
}

// Returns the items of a kind that have all words, and pass the filters.
function matching(kind, query, filters) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const { items, haystacks, onHost: isOn, topology } = KINDS[kind];
  return items.filter((one, number) => words.every((word) => haystacks[number].includes(word))
    && (!filters.host || isOn(one, filters.host))
    && (!filters.topology || kind === "host" || topology(one) === filters.topology)
    && (!filters.state || isGood(one.state) === (filters.state === "ready")));
}

// One table whose rows are added while it is scrolled.
class Table {
  constructor(holder, select) {
    this.holder = holder;
    this.select = select;
    this.observer = new IntersectionObserver((seen) => {
      if (seen.some((entry) => entry.isIntersecting)) this.grow();
    }, { rootMargin: "600px" });
    window.addEventListener("beforeprint", () => this.grow(Infinity));
  }

  show(kind, items, order) {
    this.kind = kind;
    const column = KINDS[kind].columns[order.column];
    this.items = order.column === null ? items : [...items].sort((one, other) => {
      const value = column[2] || column[1];
      return compared(value(one), value(other)) * (order.down ? -1 : 1);
    });
    this.body = el("tbody", {});
    this.shown = 0;
    this.end = el("p", { class: "end" });
    const head = KINDS[kind].columns.map(([name], number) => el("th", {
      scope: "col",
      "aria-sort": number === order.column ? (order.down ? "descending" : "ascending") : null,
    }, el("button", { type: "button", onclick: () => order.by(number) }, name)));
    const table = el("table", { class: "items" }, el("thead", {}, el("tr", {}, head)), this.body);
    table.addEventListener("keydown", (event) => this.move(event));
    this.holder.replaceChildren(table, this.end);
    this.observer.disconnect();
    this.observer.observe(this.end);
    this.grow();
  }

  grow(count = CHUNK) {
    const next = this.items.slice(this.shown, this.shown + count);
    this.body.append(...next.map((one, number) => this.row(one, this.shown + number)));
    this.shown += next.length;
    this.end.textContent = this.items.length ? (this.shown < this.items.length ? "…" : "")
      : "Nothing matches. Change the search or the filters.";
    // It reports again only what became visible anew.
    if (this.shown < this.items.length) {
      this.observer.unobserve(this.end);
      this.observer.observe(this.end);
    }
  }

  row(one, number) {
    const [first, ...rest] = KINDS[this.kind].columns;
    const open = el("a", { class: "open", href: target(this.kind, one.name), tabindex: number ? "-1" : "0" },
      first[1](one));
    return el("tr", { onclick: (event) => { if (!event.target.closest("a")) open.click(); } },
      el("th", { scope: "row" }, open), rest.map(([, cell]) => el("td", {}, cell(one))));
  }

  // Arrows, Home and End move between rows; only one of them is in the tab order.
  move(event) {
    const row = event.target.closest("tbody tr");
    if (!row) return;
    const next = {
      ArrowDown: () => row.nextElementSibling, ArrowUp: () => row.previousElementSibling,
      Home: () => this.body.firstElementChild, End: () => this.body.lastElementChild,
    }[event.key];
    if (!next) return;
    event.preventDefault();
    const found = next();
    if (!found) return;
    row.querySelector("a.open").tabIndex = -1;
    const link_ = found.querySelector("a.open");
    link_.tabIndex = 0;
    link_.focus();
    found.scrollIntoView({ block: "nearest" });
  }
}
