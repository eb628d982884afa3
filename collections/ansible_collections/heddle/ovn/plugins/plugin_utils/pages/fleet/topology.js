// SPDX-License-Identifier: GPL-3.0-or-later
// The picture of a network as OVN has it: what is on all hosts as a bar, what each host has below it in a column.

const SPACE = { width: 720, left: 1, gap: 14, step: 26, most: 5, pill: 34 };
const LETTER = { name: 7.2, line: 6.3, kind: 5.9 };

// Keeps both ends of a text that is too long.
function fitted(text, width, letter) {
  const room = Math.max(4, Math.floor(width / letter));
  if (text.length <= room) return text;
  const head = Math.ceil((room - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (room - 1 - head))}`;
}

function words(x, y, text, width, style) {
  const shown = fitted(text, width, LETTER[style] || LETTER.line);
  return svg("text", { x, y, class: style }, shown, shown === text ? null : svg("title", {}, text));
}

function box(picture, x, y, width, kind, name, details, round) {
  const height = 40 + 14 * details.length;
  picture.append(
    svg("rect", { x, y, width, height, rx: round ? 14 : 4, class: round ? "router" : "switch" }),
    words(x + 12, y + 16, kind, width - 20, "kind"),
    words(x + 12, y + 32, name, width - 20, "name"),
    ...details.map((text, number) => words(x + 12, y + 47 + 14 * number, text, width - 20, "line")));
  return y + height;
}

function wire(picture, x, top, bottom) {
  picture.append(svg("path", { d: `M${x} ${top}V${bottom}`, class: "wire" }));
}

function keyText(network, place) {
  return network.keys[place] === undefined ? "" : ` · key ${network.keys[place]}`;
}

// Draws what is above the workloads; returns its lower edge in each column.
function upperPart(picture, network, columns, full) {
  const { names, views } = network;
  const primary = network.role === "Primary";
  let y = 1;
  if (network.topology === "Layer3") {
    const bar = box(picture, SPACE.left, y, full, `TRANSIT SWITCH, ON ALL HOSTS${keyText(network, 0)}`, names.transit,
      [], false);
    return columns.map(({ node, x, width }) => {
      const seen = views[node];
      wire(picture, x + width / 2, bar, bar + SPACE.step);
      const router = box(picture, x, bar + SPACE.step, width, "ROUTER", names.router, seen.transit, true);
      let next = router + SPACE.step;
      if (primary) {
        wire(picture, x + width / 2 + 12, router, next);
        wire(picture, x + 12, router, next);
        const lower = box(picture, x + 26, next, width - 26, "GATEWAY ROUTER", seen.gateway_router, seen.join, true);
        wire(picture, x + 12, next, lower + SPACE.step);
        next = lower + SPACE.step;
      } else {
        wire(picture, x + 12, router, next);
      }
      return box(picture, x, next, width, "SWITCH", seen.switch, seen.gateways, false);
    });
  }
  if (network.topology === "Localnet") {
    const tag = network.vlan ? `VLAN ${network.vlan}` : "untagged";
    const bar = box(picture, SPACE.left, y, full, "PHYSICAL NETWORK", network.physical, [tag], false);
    return columns.map(({ x, width }) => {
      wire(picture, x + width / 2, bar, bar + SPACE.step);
      return box(picture, x, bar + SPACE.step, width, "SWITCH", names.switch, [], false);
    });
  }
  if (primary) {
    const lower = Math.max(...columns.map(({ node, x, width }) => box(picture, x, y, width, "GATEWAY ROUTER",
      views[node].gateway_router, views[node].join, true)));
    for (const { x, width } of columns) wire(picture, x + width / 2, lower, lower + SPACE.step);
    y = box(picture, SPACE.left, lower + SPACE.step, full, `TRANSIT ROUTER, ON ALL HOSTS${keyText(network, 1)}`,
      names.transit, [(views[columns[0].node].gateways || []).join("  ")], true);
    wire(picture, SPACE.left + full / 2, y, y + SPACE.step);
    y += SPACE.step;
  }
  const lower = box(picture, SPACE.left, y, full, `SWITCH, ON ALL HOSTS${keyText(network, 0)}`, names.switch,
    network.subnets.length ? [network.subnets.join("  ")] : [], false);
  return columns.map(() => lower);
}

function workloadPills(picture, { node, x, width }, top, members) {
  const open = members.filter(({ workload, port }) => workload.node === node && port.role !== "infrastructure-locked");
  const locked = members.filter(({ workload }) => workload.node === node).length - open.length;
  picture.append(words(x + 26, top + 20, node, width - 26, "name"));
  let y = top + 30;
  const shown = open.slice(0, SPACE.most);
  for (const { workload, port } of shown) {
    picture.append(
      svg("path", { d: `M${x + 12} ${y + SPACE.pill / 2}H${x + 26}`, class: "wire" }),
      svg("rect", { x: x + 26, y, width: width - 26, height: SPACE.pill, rx: 6, class: "workload" }),
      words(x + 35, y + 14, workload.name, width - 42, "line strong"),
      words(x + 35, y + 27, port.addresses[0] || port.mac, width - 42, "line"));
    y += SPACE.pill + 6;
  }
  if (shown.length) wire(picture, x + 12, top, y - 6 - SPACE.pill / 2);
  const rest = [
    open.length > shown.length ? `and ${open.length - shown.length} more` : null,
    locked ? `${locked} locked ports` : null,
    open.length || locked ? null : "no workloads",
  ].filter(Boolean);
  for (const text of rest) {
    picture.append(words(x + 26, y + 12, text, width - 26, "faint"));
    y += 16;
  }
  return y;
}

function topologyPicture(network, members) {
  const nodes = Object.keys(network.views);
  if (!nodes.length) return el("p", { class: "calm" }, "On no host, because no workload uses it.");
  const full = SPACE.width - 2 * SPACE.left;
  const width = Math.min(300, (full - (nodes.length - 1) * SPACE.gap) / nodes.length);
  const columns = nodes.map((node, number) => ({ node, width, x: SPACE.left + number * (width + SPACE.gap) }));
  const across = columns.at(-1).x + width - SPACE.left;
  const picture = svg("svg", { class: "topology", role: "img", "aria-label": `Topology of ${network.name}` });
  const lower = upperPart(picture, network, columns, Math.max(across, 340));
  let bottom = Math.max(...columns.map((column, number) => workloadPills(picture, column, lower[number], members)));
  if (network.nodes.length > nodes.length) {
    bottom += 20;
    picture.append(words(SPACE.left, bottom, `and ${network.nodes.length - nodes.length} more hosts`, full, "faint"));
  }
  picture.setAttribute("viewBox", `0 0 ${Math.max(across, 340) + 2} ${bottom + 8}`);
  picture.style.maxWidth = `${Math.max(across, 340) + 2}px`;
  return picture;
}
