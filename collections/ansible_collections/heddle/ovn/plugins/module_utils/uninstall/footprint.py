# SPDX-License-Identifier: Apache-2.0
"""What the roles put on a host, by role: files of Heddle's own, and what other software shares with it."""

from __future__ import annotations

from dataclasses import dataclass

SYSTEMD = "/etc/systemd/system"
DAEMONS = ("ovsdb-server", "ovs-vswitchd", "ovn-ovsdb-server-nb", "ovn-ovsdb-server-sb", "ovn-northd", "ovn-controller")
HOST_UNIT, STATE_UNIT, VM_UNIT, MESH_UNIT, PROBES_UNIT, DNS_NAMES_UNIT, UNDERLAY_UNIT = (
    f"{SYSTEMD}/heddle-{name}.service" for name in ("host", "state", "vm@", "mesh", "probes", "dns-names", "underlay")
)
METRICS_UNITS = tuple(
    f"{SYSTEMD}/{name}"
    for name in (
        "heddle-metrics.service", "heddle-metrics.timer", "heddle-metrics-http.socket", "heddle-metrics-http@.service"
    )
)  # fmt: skip
# Where node_exporter of Debian reads.
METRICS_FILE = "/var/lib/prometheus/node-exporter/heddle.prom"
PROGRAM = "/usr/local/sbin/heddle-host"
LIBRARY = "/var/lib/heddle"
BIRD_FILE, BIRD_TEMPLATED, BIRD_PROPOSED = (
    f"/etc/bird/{name}" for name in ("heddle.conf", "heddle_template.conf", "heddle_template.wanted")
)
STATE_DATABASE = "/var/lib/heddle-state"
# In /etc in Debian's releases; the other one in upstream's.
VSWITCH_DATABASES = ("/etc/openvswitch/conf.db", "/var/lib/openvswitch/conf.db")
_DROP_IN_FOLDERS = tuple(f"{SYSTEMD}/{daemon}.service.d" for daemon in DAEMONS)


@dataclass(frozen=True)
class Footprint:
    """What one role changes on a host.

    `sign` is a file that the role has installed as long as it is there. `own` are files and directories that are
    Heddle's by their names and are removed with all that is in them. `shared` are files and directories of other
    software: they are removed if they were missing before. `folders` are removed if they were missing and are empty.
    `units` may be enabled and started by the role, `users` are created by it.
    """

    sign: str
    own: tuple[str, ...]
    shared: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


FOOTPRINTS = {
    "node": Footprint(
        sign=PROGRAM,
        own=(
            HOST_UNIT,
            *(f"{folder}/heddle-running.conf" for folder in _DROP_IN_FOLDERS),
            f"{SYSTEMD}/ovn-controller.service.d/heddle.conf",
            f"{SYSTEMD}/ovn-controller.service.d/heddle-allocator.conf",
            f"{SYSTEMD}/ovn-northd.service.d/heddle.conf",
            f"{SYSTEMD}/ovn-northd.service.d/heddle-allocator.conf",
            f"{SYSTEMD}/ovn-northd.service.d/heddle-threads.conf",
            f"{SYSTEMD}/ovn-ovsdb-server-sb.service.d/heddle-allocator.conf",
            "/etc/systemd/networkd.conf.d/heddle.conf",
            PROGRAM,
            "~/.cache/heddle",
            "/run/heddle",
        ),
        shared=(
            VSWITCH_DATABASES[0],
            "/etc/openvswitch/.conf.db.~lock~",
            "/etc/openvswitch/system-id.conf",
            VSWITCH_DATABASES[1],
            "/var/lib/openvswitch/.conf.db.~lock~",
            "/var/lib/ovn/ovnnb_db.db",
            "/var/lib/ovn/ovnsb_db.db",
            "/var/lib/ovn/.ovnnb_db.db.~lock~",
            "/var/lib/ovn/.ovnsb_db.db.~lock~",
            "/var/log/openvswitch",
            "/var/log/ovn",
            "/run/openvswitch",
            "/run/ovn",
        ),
        folders=(*_DROP_IN_FOLDERS, "/etc/systemd/networkd.conf.d", "~/.cache", "/run/netns"),
        # Those that start others come first: stopping one of them stops its daemons.
        units=("ovn-host", "ovn-central", "openvswitch-switch", "ovs-record-hostname", *reversed(DAEMONS)),
    ),
    "state": Footprint(sign=STATE_UNIT, own=(STATE_UNIT, "/usr/share/heddle.ovsschema"), users=("heddle",)),
    # Files of BIRD itself, bird.conf among them, come and go with its package.
    "bird": Footprint(sign=BIRD_FILE, own=(BIRD_FILE, BIRD_TEMPLATED, BIRD_PROPOSED), units=("bird",)),
    "metrics": Footprint(
        sign=METRICS_UNITS[0],
        own=(*METRICS_UNITS, METRICS_FILE),
        folders=("/var/lib/prometheus/node-exporter", "/var/lib/prometheus"),
    ),
    "mesh": Footprint(sign=MESH_UNIT, own=(MESH_UNIT,)),
    "probes": Footprint(sign=PROBES_UNIT, own=(PROBES_UNIT,)),
    "dns_names": Footprint(sign=DNS_NAMES_UNIT, own=(DNS_NAMES_UNIT,)),
    "underlay": Footprint(sign=UNDERLAY_UNIT, own=(UNDERLAY_UNIT,)),
    "hypervisor": Footprint(
        sign=VM_UNIT,
        own=(VM_UNIT, "/run/heddle-vm"),
        users=("heddle-vm",),
    ),
}
