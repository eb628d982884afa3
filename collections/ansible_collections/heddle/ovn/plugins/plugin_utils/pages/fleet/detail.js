// SPDX-License-Identifier: GPL-3.0-or-later
// The panel with all about one host, network or workload.

const MEMBERS = 200;

function facts(pairs) {
  return el("dl", {}, pairs.filter(([, value]) => value !== null && value !== "" && value?.length !== 0)
    .map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function joined(parts) {
  return parts.flatMap((part, number) => (number ? [", ", part] : [part]));
}

function plainTable(head, rows) {
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, head.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell)))))));
}

// A table whose rest is shown on request, and printed.
function longTable(title, head, all, row) {
  if (!all.length) return null;
  const holder = el("div", {}, plainTable(head, all.slice(0, MEMBERS).map(row)));
  if (all.length > MEMBERS) {
    const more = el("button", { type: "button", onclick: () => {
      holder.replaceChildren(plainTable(head, all.map(row)));
    } }, `Show all ${all.length}`);
    holder.append(more);
  }
  return section(`${title} (${all.length})`, holder);
}

function section(title, ...content) {
  return content.some(Boolean) ? el("section", {}, el("h3", {}, title), content) : null;
}

function conditions(list) {
  return section("Conditions", list.length ? plainTable(["Condition", "Status", "Reason", "Since"],
    list.map((one) => [
      one.type, one.status, [one.reason, el("span", { class: "message" }, one.message)], when(one.lastTransitionTime),
    ])) : null);
}

function manifest(document_) {
  if (!document_) return null;
  const text = yaml(document_);
  const pre = el("pre", { tabindex: "0" }, text);
  const copy = el("button", { type: "button", class: "copy", onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(pre);
    }
  } }, "Copy");
  return section("YAML", copy, pre);
}

function networkDetail(one) {
  const members = one.users.map((name) => byName.workload.get(name)).filter(Boolean)
    .flatMap((workload) => workload.interfaces.filter((port) => port.network === one.name)
      .map((port) => ({ workload, port })));
  const status = (one.object || {}).status || {};
  return [
    facts([
      ["Topology", `${one.topology} ${one.role}`.trim()],
      ["Network id", one.id === null ? "–" : String(one.id)],
      ["Tunnel keys", lines(one.keys.map(hex))],
      ["Subnets", one.subnets.length ? lines(one.subnets) : ""],
      ["MTU", one.mtu === null ? "" : String(one.mtu)],
      ["VLAN", one.vlan ? String(one.vlan) : ""],
      ["Physical network", one.physical || ""],
      ["Namespaces", one.namespaces.join(", ") || (one.id === 0 ? "all without a primary network of their own" : "")],
      ["Hosts", joined(one.nodes.map((name) => link("host", name)))],
    ]),
    one.id === null ? null : section("Topology", topologyPicture(one, members)),
    conditions(status.conditions || []),
    section("On hosts", hostStates(status.hosts || {})),
    longTable("Members", ["Workload", "Host", "Interface", "Addresses", "MAC", "Key"], members, ({ workload, port }) => [
      link("workload", workload.name), link("host", workload.node),
      port.role === "infrastructure-locked" ? `${port.name} (locked)` : port.name,
      lines(port.addresses), el("span", { class: "mono" }, port.mac), port.key === null ? "–" : String(port.key),
    ]),
    manifest(one.object),
  ];
}

function hostStates(states) {
  const wrong = Object.entries(states).filter(([, state]) => !isGood(state));
  return wrong.length ? plainTable(["Host", "State"], wrong.map(([name, state]) => [link("host", name), state])) : null;
}

function workloadDetail(one) {
  return [
    facts([["Host", link("host", one.node)], ["Kind", one.kind]]),
    conditions(one.conditions),
    longTable("Interfaces", ["Interface", "Network", "Role", "Addresses", "MAC", "Key"], one.interfaces, (port) => [
      port.name, link("network", port.network, port.network, dot(byName.network.get(port.network))),
      port.role.replace("infrastructure-locked", "locked"), lines(port.addresses),
      el("span", { class: "mono" }, port.mac), port.key === null ? "–" : String(port.key),
    ]),
  ];
}

function hostDetail(one) {
  const found = {
    network: data.networks.filter((network) => network.nodes.includes(one.name)),
    workload: data.workloads.filter((workload) => workload.node === one.name),
  };
  const physical = Object.entries(one.physical).map(([name, bridge]) => `${name} on ${bridge}`);
  return [
    facts([
      ["State", one.state], ["Node id", String(one.id)],
      ["Chassis", el("span", { class: "mono" }, one.chassis || "not installed")],
      ["Tunnel addresses", lines(one.encap)], ["Addresses", lines(one.addresses)],
      ["Gateway", one.mode ? `${one.mode}, ${one.uplink} on ${one.bridge}` : "none"],
      ["Next hops", lines(one.next_hops)], ["Physical networks", physical.join(", ")],
      ["Layer2 topology", one.layer2],
    ]),
    longTable("Networks", ["Network", "Topology", "Workloads here", "State"], found.network, (network) => [
      link("network", network.name, network.name, dot(network)), `${network.topology} ${network.role}`,
      String(network.users.filter((name) => byName.workload.get(name)?.node === one.name).length), badge(network.state),
    ]),
    longTable("Workloads", ["Workload", "Network", "Addresses", "State"], found.workload, (workload) => [
      link("workload", workload.name), (mainNetwork(workload) || { name: "–" }).name,
      lines(mainAddresses(workload)), badge(workload.state),
    ]),
  ];
}

const DETAILS = { network: networkDetail, workload: workloadDetail, host: hostDetail };

// Shows what the address names, as `#network/red_red`; without a name the panel closes.
function showDetail() {
  const panel = document.getElementById("detail");
  const [, kind, coded] = /^#(network|workload|host)\/(.+)$/.exec(location.hash) || [];
  let name = null;
  try { name = coded && decodeURIComponent(coded); } catch { /* an address that someone wrote by hand */ }
  const one = kind && byName[kind].get(name);
  const wasOpen = !panel.hidden;
  panel.hidden = !one;
  document.body.classList.toggle("open", Boolean(one));
  if (!one) {
    panel.replaceChildren();
    if (wasOpen && showDetail.before?.isConnected) showDetail.before.focus();
    return;
  }
  if (!wasOpen) showDetail.before = document.activeElement;
  const close = el("button", { type: "button", class: "close", "aria-label": "Close", onclick: closeDetail }, "✕");
  const network = kind === "network" ? one : kind === "workload" ? mainNetwork(one) : null;
  panel.className = network ? hue(network) : "";
  panel.replaceChildren(
    el("header", {},
      el("p", { class: "label" }, capital(kind)),
      el("h2", { id: "detail-title", tabindex: "-1" }, network ? dot(network) : null, one.name),
      badge(one.state), close),
    ...DETAILS[kind](one).filter(Boolean));
  panel.scrollTop = 0;
  close.focus({ preventScroll: true });
}

function closeDetail() {
  history.replaceState(null, "", location.pathname + location.search);
  showDetail();
}
