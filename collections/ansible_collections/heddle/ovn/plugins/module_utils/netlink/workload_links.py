# SPDX-License-Identifier: Apache-2.0
"""The engine for network namespaces and links: compares desired and actual state and applies the steps.

Own are namespaces whose loopback carries the owner's mark as alias, and host links that carry it. Everything else is
foreign: it is not changed, and a foreign namespace with a desired name is an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from ..common.change import Change, Outcome
from ..common.errors import NetlinkError
from ..common.naming import USERSPACE_LINKS
from ..types.netns_workload import Endpoint, Link
from . import kernel
from .link_local import derived_address, replace_addresses, stale_addresses
from .protocol.raw_messages import decoded
from .reception import reception, set_reception, stale_links
from .resolver_files import resolver_notes, resolver_steps
from .step import Step, perform

SUBSTRATE = "kernel"
# With the links that are made, and those that no program receives on, by name with their networks.
ClosePorts = Callable[[Mapping[str, str], Mapping[str, str]], Outcome]


def mark(owner: str, network: str = "") -> str:
    """Return the alias (IFLA_IFALIAS) that links of an owner carry, `heddle:OWNER:NETWORK`.

    Without `network` it is that of a namespace's loopback.
    """
    return f"heddle:{owner}:{network}" if network else f"heddle:{owner}"


def reconcile_endpoints(
    endpoints: list[Endpoint],
    *,
    owner: str,
    userspace: bool,
    write: bool,
    close_ports: ClosePorts | None = None,
) -> Outcome:
    """Bring the host's namespaces to exactly `endpoints`, as far as the owner's mark goes.

    `userspace` is for Open vSwitch's userspace datapath: links then compute checksums themselves, and the host receives
    nothing on their ends (see `reception`). `close_ports` is called before with the host's ends that are made, and with
    those that no program receives on, both with their networks, if there are any (`ovsdb/stale_ports.py`). With
    `write`, a failure on a link of one network does not affect other networks; the outcome's `refused` has it.
    """
    refused: dict[str, str] = {}
    inner, failures = _read_namespaces()
    host_links = kernel.read_links(None)
    steps = _steps(endpoints, (inner, failures, host_links), owner, userspace, refused if write else None)
    outcome = Outcome()
    if userspace and close_ports:
        made, stale = _made(endpoints, steps), _stale(endpoints, host_links)
        outcome = close_ports(made, stale) if made or stale else outcome
    steps += resolver_steps(endpoints, mark(owner))
    wanted = {one.namespace for one in endpoints}
    notes = (
        *(reason for name, reason in failures.items() if name not in wanted),
        *resolver_notes(endpoints, mark(owner)),
    )
    return outcome + perform(steps, write=write) + Outcome(refused=tuple(refused.items()), notes=notes)


def _made(endpoints: list[Endpoint], steps: list[Step]) -> dict[str, str]:
    """Return the host's ends of links that are made by `steps`, with their networks."""
    changes = [step.change for step in steps]
    made = {one.after["host end"] for one in changes if (one.action, one.kind) == ("create", "link")}
    links = [link for endpoint in endpoints for link in endpoint.links]
    return {link.host_name: link.network for link in links if link.host_name in made}


def _stale(endpoints: list[Endpoint], host_links: dict) -> dict[str, str]:
    """Return the switch's ends of links that are there and whose frames no program receives, with their networks."""
    links = [link for endpoint in endpoints for link in endpoint.links if not link.is_routed]
    return stale_links({link.host_name: link.network for link in links}, host_links)


def foreign_namespaces(owner: str) -> list[str]:
    """Return the names of the host's network namespaces that are not the owner's."""
    own_mark = mark(owner)
    return [decoded(os.fsencode(name)) for name in kernel.namespaces() if kernel.read_alias(name, "lo") != own_mark]


def planned_endpoints(endpoints: list[Endpoint], *, owner: str) -> Outcome:
    """Return the changes on an empty host, for check mode before the libraries are installed: all is created."""
    files = (step.change for step in resolver_steps(endpoints, mark(owner)))
    return Outcome((*map(_creation, endpoints), *files))


def _change(action: str, kind: str, name: str, network: str, before: dict, after: dict) -> Change:
    return Change(SUBSTRATE, action, kind, name, network, before, after)


def _creation(endpoint: Endpoint) -> Change:
    return _change(
        "create", "network namespace", endpoint.namespace, "", {}, {"links": [link.name for link in endpoint.links]}
    )


def _read_namespaces() -> tuple[dict[str, dict], dict[str, str]]:
    """Return the links of each namespace, and the reason for each one that cannot be read.

    A name that leads to no namespace has no links. Any other failure says nothing about a namespace: programs run in
    it, so it must not count as one that was cut off.
    """
    inner, failures = {}, {}
    for name in kernel.namespaces():
        try:
            inner[name] = _links_inside(name)
        except OSError as error:
            failures[name] = (
                f"network namespace {decoded(os.fsencode(name))} stays as it is, because it cannot be read: {error}"
            )
    return inner, failures


def _links_inside(namespace: str) -> dict:
    try:
        return kernel.read_links(namespace)
    except OSError:
        if kernel.is_namespace(namespace):
            raise
        return {}


def _refuse_unread(endpoint: Endpoint, reason: str, refused: dict[str, str] | None) -> None:
    """Refuse the networks of a workload whose namespace cannot be read; an error where nothing is `refused`."""
    if refused is None or not endpoint.links:
        raise NetlinkError(reason)
    for link in endpoint.links:
        refused.setdefault(link.network, reason)


def _steps(
    endpoints: list[Endpoint], found: tuple[dict, dict, dict], owner: str, userspace: bool, refused: dict | None
) -> list[Step]:
    inner, failures, host_links = found
    own_mark = mark(owner)
    own = {name for name, links in inner.items() if links.get("lo", {}).get("alias") == own_mark}
    steps = []
    wanted = {endpoint.namespace: endpoint for endpoint in endpoints}
    wanted_links = {link.host_name for endpoint in endpoints for link in endpoint.links}

    for name in sorted(own - set(wanted)):
        before = {"links": sorted(set(inner[name]) - {"lo"})}
        change = _change("delete", "network namespace", name, "", before, {})
        steps.append(Step(change, partial(kernel.remove_namespace, name)))
    for name, link in sorted(host_links.items()):
        if link["alias"].startswith(own_mark + ":") and name not in wanted_links:
            network = link["alias"].removeprefix(own_mark + ":")
            change = _change("delete", "link", name, network, {"mtu": link["mtu"]}, {})
            steps.append(Step(change, partial(kernel.remove_link, name)))

    for name, endpoint in sorted(wanted.items()):
        if name in failures:
            _refuse_unread(endpoint, failures[name], refused)
            continue
        links = inner.get(name)
        if links is None:
            steps.append(Step(_creation(endpoint), partial(kernel.create_namespace, name, own_mark)))
        elif not links:
            # A creation interrupted before the mount leaves an empty file of that name.
            change = _change("update", "network namespace", name, "", {"state": "cut off"}, {"state": "created"})
            steps.append(Step(change, partial(_create_anew, name, own_mark)))
        elif name not in own:
            if set(links) - {"lo"} or links.get("lo", {}).get("alias"):
                raise NetlinkError(
                    f"network namespace {name} exists and is not Heddle's; rename it or the workload, then run again"
                )
            # A creation interrupted before the mark was set leaves an empty namespace.
            change = _change("update", "network namespace", name, "", {"mark": ""}, {"mark": own_mark})
            steps.append(Step(change, partial(kernel.change_link, name, "lo", ifalias=own_mark, state="up")))
        inner_links = links or {}
        for link in endpoint.links:
            # Before any link is made: the name that this one has may be wanted for another one.
            steps += _unpairing(name, link, inner_links, host_links, mark(owner, link.network))
        for link in endpoint.links:
            try:
                steps += _link_steps(name, link, inner_links, host_links, mark(owner, link.network), userspace)
            except NetlinkError as error:
                if refused is None:
                    raise
                refused.setdefault(link.network, str(error))
    return steps


def _is_paired(link: Link, links: dict, host_links: dict) -> bool:
    """Return whether the link of that name is the other end of that link of the host."""
    there, host = links.get(link.name), host_links.get(link.host_name)
    return there is not None and host is not None and there["peer"] == host["index"]


def _unpairing(namespace: str, link: Link, links: dict, host_links: dict, alias: str) -> list[Step]:
    """Remove an own link whose other end has another name in the workload, or is gone."""
    host = host_links.get(link.host_name)
    if host is None or _is_paired(link, links, host_links) or host["alias"] not in ("", alias):
        return []
    title = f"{namespace}/{link.name}"
    change = _change("delete", "link", title, link.network, {"host end": link.host_name}, {})
    return [Step(change, partial(kernel.remove_link, link.host_name))]


def _create_anew(namespace: str, mark_text: str) -> None:
    kernel.remove_namespace(namespace)
    kernel.create_namespace(namespace, mark_text)


def _route_text(route: tuple[str, str | None]) -> str:
    to, via = route
    return f"{to} via {via}" if via else f"{to} on link"


# What differs: kind of the object, before, after, and what writes it.
_Difference = tuple[str, dict, dict, Callable[[], None]]


def _link_steps(namespace: str, link: Link, links: dict, host_links: dict, alias: str, userspace: bool) -> list[Step]:
    there, host = links.get(link.name), host_links.get(link.host_name)
    if host is not None and host["alias"] and host["alias"] != alias:
        raise NetlinkError(f"link {link.host_name} exists and is not Heddle's (alias {host['alias']}); remove it first")
    title, steps = f"{namespace}/{link.name}", []
    if not _is_paired(link, links, host_links):
        after = {"mac": link.mac, "mtu": link.mtu, "host end": link.host_name}
        create = partial(_create_link, namespace, link, alias, userspace)
        steps.append(Step(_change("create", "link", title, link.network, {}, after), create))
        there, host = _new_ends(link, alias, userspace)
    differences = [
        *_inner_settings(namespace, link, there),
        *_host_settings(link, host, alias),
        *_silence(namespace, link, there),
        *_offload(namespace, link, there, userspace),
        *_reception(link, host, userspace),
        *_addresses_and_routes(namespace, link, there),
    ]
    steps += [
        Step(_change("update", kind, title, link.network, before, after), write)
        for kind, before, after, write in differences
    ]
    return steps


def _create_link(namespace: str, link: Link, alias: str, userspace: bool) -> None:
    kernel.create_link(namespace, link, alias)
    if userspace:
        kernel.disable_transmit_checksum(namespace, link.name)
        set_reception(link.host_name, receives=link.is_routed)


def _new_ends(link: Link, alias: str, userspace: bool) -> tuple[dict, dict]:
    """Return both ends of a link that was just made, as they are read."""
    there = {"mac": link.mac, "mtu": link.mtu, "up": True, "addresses": set(), "routes": set()}
    there["offload"] = not userspace
    there |= {"detects": False, "solicits": link.solicits_routers, "link-local": {}, "derives": True}
    return there, {"alias": alias, "mtu": link.mtu, "up": True, **_received(link, userspace)}


def _received(link: Link, userspace: bool) -> dict:
    receives = link.is_routed or not userspace
    return {"answers": receives, "group": 0 if receives else USERSPACE_LINKS}


def _inner_settings(namespace: str, link: Link, there: dict) -> Iterator[_Difference]:
    wanted = {"mac": link.mac, "mtu": link.mtu, "up": True}
    different = {key: value for key, value in wanted.items() if there[key] != value}
    if different:
        settings = {"mac": "address", "mtu": "mtu", "up": "state"}
        values = {settings[key]: "up" if key == "up" else value for key, value in different.items()}
        before = {key: there[key] for key in different}
        yield "link", before, different, partial(kernel.change_link, namespace, link.name, **values)
    stale = stale_addresses(there, link.mac)
    if stale:
        before, after = {"link-local": sorted(stale)}, {"link-local": [derived_address(link.mac)]}
        yield "addresses", before, after, partial(replace_addresses, namespace, link.name, stale, link.mac)


def _host_settings(link: Link, host: dict, alias: str) -> Iterator[_Difference]:
    wanted = {"alias": alias, "mtu": link.mtu, "up": True}
    if wanted != {key: host[key] for key in wanted}:
        before, after = ({f"host {key}": end[key] for key in wanted} for end in (host, wanted))
        change = {"ifalias": alias, "mtu": link.mtu, "state": "up"}
        yield "link", before, after, partial(kernel.change_link, None, link.host_name, **change)


def _silence(namespace: str, link: Link, there: dict) -> Iterator[_Difference]:
    if there["detects"] or (there["solicits"] and not link.solicits_routers):
        before = {"duplicate address detection": there["detects"], "router solicitations": there["solicits"]}
        after = {"duplicate address detection": False, "router solicitations": link.solicits_routers}
        write = partial(kernel.silence_link, namespace, link.name, solicits=link.solicits_routers)
        yield "link", before, after, write


def _offload(namespace: str, link: Link, there: dict, userspace: bool) -> Iterator[_Difference]:
    if userspace and there["offload"]:
        before, after = {"transmit checksum offload": True}, {"transmit checksum offload": False}
        yield "link", before, after, partial(kernel.disable_transmit_checksum, namespace, link.name)


def _reception(link: Link, host: dict, userspace: bool) -> Iterator[_Difference]:
    if link.is_routed or userspace:
        before = reception(host)
        after = dict.fromkeys(before, link.is_routed)
        if before != after:
            yield "link", before, after, partial(set_reception, link.host_name, receives=link.is_routed)


def _addresses_and_routes(namespace: str, link: Link, there: dict) -> Iterator[_Difference]:
    add, remove = set(link.addresses) - there["addresses"], there["addresses"] - set(link.addresses)
    if add or remove:
        before, after = {"addresses": sorted(there["addresses"])}, {"addresses": sorted(link.addresses)}
        yield "addresses", before, after, partial(kernel.change_addresses, namespace, link.name, add, remove)
    routes = set(link.routes)
    # Removing an address removes its routes, so those are set again afterwards.
    kept = set() if remove else there["routes"]
    new, gone = routes - kept, kept - routes
    if new or gone:
        before, after = ({"routes": sorted(map(_route_text, some))} for some in (there["routes"], routes))
        yield "routes", before, after, partial(kernel.change_routes, namespace, link.name, new, gone)
