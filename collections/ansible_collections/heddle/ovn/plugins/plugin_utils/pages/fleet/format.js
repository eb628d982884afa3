// SPDX-License-Identifier: GPL-3.0-or-later
// Elements, times and states. Text is always set as text, never as markup.

const data = JSON.parse(document.getElementById("data").textContent);

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

function el(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

// The first word of a state; after a colon it has a reason.
const GOOD = new Set(["Ready", "ready", "Running", "Active", "passed"]);
const QUIET = new Set(["not asked", "unknown", "no result", "WaitingForHosts", "HostsNotAsked"]);

function isGood(state) {
  return GOOD.has(state);
}

function badge(state) {
  const word = state.split(":")[0];
  const kind = isGood(state) ? "good" : QUIET.has(word) ? "quiet" : "bad";
  return el("span", { class: `badge ${kind}`, title: state === word ? null : state }, word);
}

function dot(network) {
  return el("span", { class: `dot ${hue(network)}`, "aria-hidden": "true" });
}

// Networks have the colours of the notebooks' pictures: by id, ten of them in turn, and gray for the default network.
function hue(network) {
  if (!network || !network.id) return "hue-0";
  return `hue-${((network.id - 1) % 10) + 1}`;
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const UNITS = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60]];

function ago(time) {
  const seconds = (Date.now() - time.getTime()) / 1000;
  const relative = new Intl.RelativeTimeFormat("en", { numeric: "always" });
  for (const [unit, size] of UNITS) {
    if (seconds >= size) return relative.format(-Math.floor(seconds / size), unit);
  }
  return "just now";
}

function when(text) {
  const time = new Date(text);
  if (!text || Number.isNaN(time.getTime())) return null;
  const shown = `${time.toISOString().slice(0, 16).replace("T", " ")} UTC`;
  return el("time", { datetime: text, title: ago(time) }, shown);
}

function hex(number) {
  return `${number} (0x${number.toString(16)})`;
}

const byName = {
  network: new Map(data.networks.map((one) => [one.name, one])),
  workload: new Map(data.workloads.map((one) => [one.name, one])),
  host: new Map(data.hosts.map((one) => [one.name, one])),
};
const byObject = new Map(data.networks.filter((one) => one.object).map((one) => [objectKey(one.object), one]));

function objectKey(document_) {
  const { namespace, name } = document_.metadata;
  return [document_.kind, namespace, name].filter(Boolean).join("/");
}

function target(kind, name) {
  return `#${kind}/${encodeURIComponent(name)}`;
}

// Opens the details of a host, network or workload.
function link(kind, name, text, ...before) {
  if (!byName[kind].has(name)) return el("span", {}, ...before, text || name);
  return el("a", { class: "ref", href: target(kind, name) }, ...before, text || name);
}
