# SPDX-License-Identifier: Apache-2.0
"""Command line of the lab: python -m lab VERB."""

import argparse
import errno
import json
import os
import signal
import sys

from lab import checkpoint, commands, impair, kvm, packages, probe
from lab.config import DRIVERS, Lab, host_named
from lab.errors import LabError
from lab.stages import Stages


def parse(words):
    parser = argparse.ArgumentParser(
        prog="python -m lab",
        description="Three nodes and an external host on this machine.",
        epilog="Environment: DRIVER, LAB_DIR, LAB_NETWORK_PREFIX, LAB_NETWORK_PREFIX6, LAB_CPU_PERCENT, LAB_MEMORY_MB, "
        "LAB_APT_URI, XDG_CACHE_HOME.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name, explanation, host=False, driver=()):
        sub = verbs.add_parser(name, help=explanation, description=explanation)
        if host:
            sub.add_argument("host", metavar="HOST")
        if driver:
            sub.add_argument("--driver", choices=driver, help="default: $DRIVER, else auto")
        return sub

    wishes = ("auto", *DRIVERS)
    verb("up", "build the image if needed and bring all hosts up", driver=wishes)
    verb("down", "remove every trace except for the image cache")
    verb("status", "say what runs").add_argument("--json", action="store_true")
    verb("reboot", "reboot a host and wait until it is back", host=True)
    verb("kill", "cut a host's power", host=True)
    verb("start", "start a host that was killed", host=True)
    verb("save", "save the disks of the hosts as a checkpoint").add_argument("name", metavar="NAME")
    verb("load", "restore the hosts from a checkpoint").add_argument("name", metavar="NAME")
    verb("image", "build the host image only")
    verb("kernel", "build the kernel of driver uml only")
    verb("probe", "print which driver fits, and why", driver=wishes).add_argument("--json", action="store_true")
    verb("packages", "install the Debian packages that up needs", driver=(*wishes, "all")).add_argument(
        "--list", action="store_true", help="print the missing ones only"
    )
    verb("partition", "cut a host off from underlay and provider", host=True).add_argument(
        "state", choices=("on", "off"), help="on: cut off; off: joined again"
    )
    verb("throttle", "limit a host's processor time", host=True).add_argument(
        "percent", metavar="PERCENT|off", help="of one processor"
    )
    verb("pause", "let a host stand still", host=True)
    verb("resume", "continue a paused host", host=True)
    lossy = verb("lose", "drop frames on underlay and provider; without options stop dropping")
    lossy.add_argument("--loss", default="0", metavar="PERCENT")
    lossy.add_argument(
        "--blackhole", nargs=3, metavar=("HOST", "HOST", "BYTES"), help="drop larger packets between two hosts"
    )
    return parser.parse_args(words)


def show_status(lab, as_json):
    found = commands.status(lab)
    if as_json:
        print(json.dumps(found, indent=2))
    elif not found["hosts"]:
        print("there is no lab")
    else:
        print(f"driver {found['driver']} ({found['reason']}), image {found['image']}")
        if not found["image_is_current"]:
            print("the image's inputs have changed since: down and up again to use the new ones")
        for host in found["hosts"]:
            addresses = " ".join(a for name in ("underlay", "provider") for a in host.get(name, []))
            print(f"{host['name']:<8} {'running' if host['running'] else 'stopped':<8} {addresses}")
    return 0 if found["up"] else 3


def show_probe(lab, wanted, as_json):
    answer, known = "no /dev/kvm that this user may use", commands.known_kvm(lab)
    if kvm.accessible():
        answer = {True: "works", False: "does not run a guest", None: "not tried yet: up tries it"}[known]
    name, reason, missing = commands.decide(lab, wanted, lambda: known)
    if as_json:
        print(json.dumps({"driver": name, "reason": reason, "missing_features": missing, "kvm": answer}, indent=2))
        return 0
    print(f"driver    {name}: {reason}")
    print(f"kernel    lacks {', '.join(missing)}: driver nspawn cannot do these" if missing else "kernel    lacks none")
    print(f"kvm       {answer}")
    return 0


def show_packages(lab, stages, wanted, only_list):
    # Before packages are installed in vain.
    probe.require_permitted(wanted, os.geteuid() == 0)
    # What decides on a driver is among the common packages.
    installed = not only_list and packages.ensure((), stages)
    drivers = DRIVERS if wanted == "all" else commands.packages_for(lab, wanted)
    build_kernel = wanted != "all" and commands.builds_kernel(lab, drivers)
    if only_list:
        for name in packages.missing(packages.needed(drivers, os.geteuid() == 0, build_kernel)):
            print(name)
    elif not packages.ensure(drivers, stages, build_kernel) and not installed:
        print("unchanged")
    return 0


def run(options):
    lab, stages = Lab(), Stages(sys.stdout)
    host = host_named(options.host) if "host" in options else None
    wanted = probe.wish(options.driver) if "driver" in options else None
    match options.verb:
        case "up":
            stages.total("up", "ready" if commands.up(lab, stages, wanted) else "unchanged")
        case "down":
            stages.total("down", "removed" if commands.down(lab) else "unchanged")
        case "status":
            return show_status(lab, options.json)
        case "probe":
            return show_probe(lab, wanted, options.json)
        case "packages":
            return show_packages(lab, stages, wanted, options.list)
        case "image":
            packages.ensure((), stages)
            commands.build(lab, stages)
        case "kernel":
            packages.ensure(("uml",), stages, commands.builds_kernel(lab, ("uml",)))
            commands.build_with_kernel(lab, stages)
        case "reboot":
            commands.reboot(lab, host)
            stages.total("reboot", f"{host.name} is back")
        case "kill":
            stages.total("kill", f"{host.name} is off" if commands.kill(lab, host) else "unchanged")
        case "start":
            stages.total("start", f"{host.name} is up" if commands.start(lab, stages, host) else "unchanged")
        case "save":
            checkpoint.save(lab, stages, options.name)
            stages.total("save", options.name)
        case "load":
            checkpoint.load(lab, stages, options.name)
            stages.total("load", options.name)
        case "throttle":
            percent = impair.percent_of(options.percent)
            commands.throttle(lab, host, percent)
            stages.total("throttle", f"{host.name} has {percent or 100} % of a processor")
        case "pause" | "resume":
            commands.pause(lab, host, options.verb == "pause")
            stages.total(options.verb, host.name)
        case "lose":
            loss = impair.loss_of(options.loss)
            commands.lose(lab, loss, impair.blackhole_of(options.blackhole))
            stages.total("lose", f"{loss:g} % of frames" if loss else "no frames at random")
        case "partition":
            commands.partition(lab, host, options.state == "on")
            stages.total("partition", f"{host.name} is {'cut off' if options.state == 'on' else 'joined'}")
    return 0


def described(error):
    """What the system refused, and the remedy."""
    remedy = "correct that, then repeat the command"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = "make room where the lab writes: LAB_DIR, XDG_CACHE_HOME and TMPDIR; then repeat the command"
    elif error.errno in (errno.EACCES, errno.EPERM):
        remedy = "repeat the command as the user who started the lab"
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}; {remedy}"


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return run(parse(sys.argv[1:]))
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {described(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was started stays until: python -m lab down", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
