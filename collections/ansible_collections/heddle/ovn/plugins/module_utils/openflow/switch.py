# SPDX-License-Identifier: Apache-2.0
"""Reads and writes Open vSwitch: ports, flows, and settings that are lost on its restart.

Flows that drop, frames and flooding are OpenFlow messages of its own, all else runs a program. It decides nothing;
`reconcile.py` does.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from ..common.databases import OPEN_VSWITCH
from ..common.errors import OpenFlowError, ProgramError
from ..common.polling import wait_for_all
from ..common.processes import subprocesses
from ..ovsdb import control_socket
from ..ovsdb.values import uuid_list
from ..types.openflow_flow import Flow
from .drop_flows import encoded, is_written, send_frames, write_again, write_drops
from .management_connection import VERSION_1_4, connected, management_socket
from .parser import VERSION, Entry, flow_line, read_dump, read_messages
from .port_modification import FloodSetting, set_flooding

# Seconds without a new port. ovn-kubernetes waits 30 for one patch port; ovn-controller makes those of hundreds of
# networks at once, at the end of an iteration that takes a minute on a slow machine.
PORT_TIMEOUT = 120.0
# Without the timestamp, so that equal failures have equal texts.
_UNTIMED = "--verbose=PATTERN:console:%m"
_LOCAL = 65534
_PORT = re.compile(r" *(\w+)\(.*\): addr:([0-9a-f:]{17})")
_LEARNED = re.compile(r" *(\S+) +(\d+) +([0-9a-f:]{17}) +(\S+)\s*\Z")


class Switch:
    """Open vSwitch on this host, read by ovs-ofctl(8) and ovs-appctl(8), and written by these but for ports.

    `client` is a connection to its database, which a caller closes; `run` runs a program. When ovs-vswitchd does not
    answer or refuses something, methods raise OpenFlowError; OvsdbError when the database does not answer.
    """

    def __init__(self, client, run: subprocesses.Run = subprocesses.run) -> None:
        self._client, self._run = client, run
        # What `ports` returned last.
        self.last_ports: dict[str, dict[str, str]] = {}

    def ports(self) -> dict[str, dict[str, str]]:
        """Return the ports that ovs-vswitchd has created by bridge, name -> OpenFlow number.

        The bridge's own port has the number `LOCAL`. A bridge that is not in the database is missing.
        """
        bridges, ports, interfaces = (
            {row["_uuid"][1]: row for row in result["rows"]}
            for result in self._client.transact(
                OPEN_VSWITCH,
                [
                    _select("Bridge", "name", "ports"),
                    _select("Port", "interfaces"),
                    _select("Interface", "name", "ofport"),
                ],
            )
        )
        found: dict[str, dict[str, str]] = {}
        for bridge in bridges.values():
            numbers = found.setdefault(bridge["name"], {})
            for port in uuid_list(bridge["ports"]):
                for reference in uuid_list(ports[port]["interfaces"]):
                    number = interfaces[reference]["ofport"]
                    if isinstance(number, int) and number > 0:
                        numbers[interfaces[reference]["name"]] = "LOCAL" if number == _LOCAL else str(number)
        self.last_ports = found
        return found

    def wait_for_ports(self, wanted: dict[str, set[str]], timeout: float) -> dict[str, dict[str, str]]:
        """Return `ports` once the wanted ports of each bridge exist, or when none has appeared for `timeout` seconds.

        `wanted` has names of ports by bridge. No error: the caller decides about those that are missing.
        """

        def missing() -> list[str]:
            ports = self.ports()
            return [name for bridge, names in wanted.items() for name in names - ports.get(bridge, {}).keys()]

        wait_for_all(missing, timeout)
        return self.last_ports

    def canonical(self, flows: list[Flow], ports: dict[str, str]) -> list[Entry]:
        """Return flows in canonical form, in the same order: as `ovs-ofctl` prints them from their OpenFlow message.

        `ports` has the numbers of the ports that the flows name. OpenFlowError names the flow that is rejected and, in
        `networks`, its network.
        """
        if not flows:
            return []
        text = "".join(f"{flow_line(flow, ports)}\n" for flow in flows)
        try:
            entries = read_messages(self._run(["ovs-ofctl", "-O", VERSION, "--no-names", "parse-flows", "-"], text))
        except ProgramError as error:
            line = re.search(r"-:(\d+): (.*)", error.stderr)
            if line is None:
                raise OpenFlowError(str(error)) from error
            flow = flows[int(line[1]) - 1]
            raise OpenFlowError(f"{described(flow)}: {line[2]}", frozenset({flow.network})) from error
        if len(entries) != len(flows):
            raise OpenFlowError(f"ovs-ofctl read {len(entries)} of {len(flows)} flows")
        return entries

    def flows(self, bridge: str) -> list[Entry]:
        """Return all flows of a bridge with any cookie, in canonical form and without counters."""
        return read_dump(self._control("--no-names", "--no-stats", "dump-flows", bridge))

    def bridges_with(self, cookies: Iterable[int], *, without: Iterable[str]) -> set[str]:
        """Return the bridges that have flows with one of these cookies; the bridges `without` are not examined.

        So own flows are found on a bridge that is no longer desired. Raises OpenFlowError.
        """
        wanted = set(cookies)
        running = set(self._call("ovs-appctl", "ofproto/list").split()) - set(without)
        return {bridge for bridge in running if any(entry.cookie in wanted for entry in self.flows(bridge))}

    def write_flows(self, bridge: str, lines: list[str]) -> None:
        """Apply lines of changes (ovs-ofctl(8), `add-flows`) as one bundle (OpenFlow 1.4).

        Packets see the flows before or after, no mix of both; when one line is rejected, none is applied.
        """
        self._control("--bundle", "add-flows", bridge, "-", text="".join(f"{line}\n" for line in lines))

    def wait_for_datapath(self, flows: Iterable[Flow]) -> None:
        """Wait until the datapath follows the flows, which have just been written (`revalidator/wait`).

        Open vSwitch replies at the end of a revalidation of its datapath. One begins when a flow is written, and one
        every 500 ms (`max-revalidator`). The first one is often over before the request arrives, so after the request
        one of `flows` that drops packets is written once more. Does nothing where Open vSwitch refuses the request, as
        with two kinds of datapaths.
        """
        ports = self.last_ports or self.ports()
        drop = next((one for flow in flows if (one := encoded(flow, ports.get(flow.bridge, {})))), None)
        with contextlib.ExitStack() as stack:
            again = None
            if drop is not None:
                connection = stack.enter_context(connected(management_socket(drop.flow.bridge), VERSION_1_4))
                again = partial(write_again, connection, drop) if is_written(connection, drop) else None
            if control_socket.call(control_socket.VSWITCHD, "revalidator/wait", then=again) is None:
                with contextlib.suppress(OpenFlowError):
                    self._call("ovs-appctl", "revalidator/wait")

    def write_drops(
        self, bridge: str, wanted: Iterable[Flow], gone: Iterable[Flow], ports: Mapping[str, str]
    ) -> list[Flow] | None:
        """Add flows that drop and delete others without starting a program; return those that were written.

        None where a flow does more than to drop, or is one of others: `write_flows` is for these.
        """
        drops = [[encoded(flow, ports) for flow in some] for some in (wanted, gone)]
        if any(one is None for some in drops for one in some):
            return None
        with connected(management_socket(bridge), VERSION_1_4) as connection:
            written = write_drops(connection, *drops)
        return None if written is None else [one.flow for one in written]

    def send(self, bridge: str, port: str, frames: Iterable[bytes]) -> None:
        """Send Ethernet frames (from the destination MAC on, without checksum) out of a port, bypassing flows."""
        numbers = (self.last_ports or self.ports()).get(bridge, {})
        if port not in numbers:
            raise OpenFlowError(f"bridge {bridge} has no port {port}")
        with connected(management_socket(bridge), VERSION_1_4) as connection:
            if not send_frames(connection, numbers[port], frames):
                raise OpenFlowError(f"bridge {bridge} sends no frame out of port {port}")

    def end_connections(self, bridge: str, zone: int, source: str) -> None:
        """Delete the connections of a zone that were translated to a source address, so that they are tracked anew.

        `zone` is a conntrack zone, `source` an IPv4 or IPv6 address without prefix length.
        """
        field = "ct_ipv6_dst" if ":" in source else "ct_nw_dst"
        self._control("ct-flush", bridge, f"zone={zone}", "", f"{field}={source}")

    def flooding(self, bridge: str) -> dict[str, bool]:
        """Return whether packets are flooded to a port, by port number (last available in OpenFlow 1.0)."""
        return {one.port: one.flood for one in self._flood_settings(bridge)}

    def set_flooding(self, bridge: str, wanted: Mapping[str, bool]) -> None:
        """Enable or disable flooding on ports, by number, all at once."""
        found = {one.port: one for one in self._flood_settings(bridge)}
        missing = sorted(wanted.keys() - found.keys())
        if missing:
            raise OpenFlowError(f"bridge {bridge} has no port {', '.join(missing)} any more")
        settings = [replace(found[port], flood=flood) for port, flood in wanted.items()]
        set_flooding(management_socket(bridge), settings)

    def _flood_settings(self, bridge: str) -> list[FloodSetting]:
        found, port = [], None
        for line in self._control("--no-names", "dump-ports-desc", bridge, version="OpenFlow10").splitlines():
            head = _PORT.match(line)
            if head:
                port = head
            elif port and line.strip().startswith("config:"):
                found.append(FloodSetting(port[1], port[2], "NO_FLOOD" not in line))
        return found

    def static_macs(self, bridge: str) -> dict[tuple[int, str], str]:
        """Return the static entries of a bridge's MAC table: (VLAN, MAC) -> port number."""
        found = {}
        for line in self._call("ovs-appctl", "fdb/show", bridge).splitlines():
            entry = _LEARNED.match(line)
            if entry and entry[4] == "static":
                found[int(entry[2]), entry[3]] = entry[1]
        return found

    def set_static_mac(self, bridge: str, port: str, vlan: int, mac: str) -> None:
        """Set a static entry of a bridge's MAC table, for a port by name; `vlan` is 0 for untagged frames."""
        self._call("ovs-appctl", "fdb/add", bridge, port, str(vlan), mac)

    def _control(self, *arguments: str, text: str = "", version: str = VERSION) -> str:
        return self._call("ovs-ofctl", "-O", version, *arguments, text=text)

    def _call(self, *argv: str, text: str = "") -> str:
        try:
            return self._run([argv[0], _UNTIMED, *argv[1:]], text)
        except ProgramError as error:
            raise OpenFlowError(f"{error}. Does ovs-vswitchd run?") from error


def described(flow: Flow) -> str:
    """Return the name of a flow in messages."""
    match = f" {flow.match}" if flow.match else ""
    return f"{flow.bridge} table {flow.table} priority {flow.priority}{match}"


def _select(table: str, *columns: str) -> dict:
    return {"op": "select", "table": table, "where": [], "columns": ["_uuid", *columns]}
