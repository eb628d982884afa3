# SPDX-License-Identifier: Apache-2.0
"""Asks the resolvers of this host for the addresses of a name, by dnspython."""

from __future__ import annotations

from dataclasses import dataclass

try:
    import dns.asyncresolver
    import dns.exception
    import dns.resolver
except ImportError:
    # The role `dns_names` installs it where the daemon runs.
    dns = None

RESOLVERS = "/etc/resolv.conf"
_KINDS = {4: "A", 6: "AAAA"}
# Seconds until no resolver has answered.
_PATIENCE = 10.0


@dataclass(frozen=True)
class Answer:
    """Addresses of one family and for how many seconds they are good; none for a name that has none."""

    addresses: frozenset[str]
    seconds: float


class LookupFailed(Exception):
    """No resolver gave an answer; the text is the reason."""


def is_available() -> bool:
    """Return whether dnspython is installed on this host."""
    return dns is not None


async def lookup(name: str, version: int, resolvers: str = RESOLVERS, port: int = 53) -> Answer:
    """Return the addresses of a name with their TTL, that of aliases on the way included; LookupFailed.

    Search domains do not apply: names in firewalls are complete.
    """
    try:
        # Read each time, since the file may have changed.
        resolver = dns.asyncresolver.Resolver(resolvers)
        resolver.port, resolver.lifetime = port, _PATIENCE
        # An answer over UDP that is too large is asked for again over TCP.
        found = await resolver.resolve(f"{name}.", _KINDS[version], raise_on_no_answer=False)
    except dns.resolver.NXDOMAIN as error:
        return Answer(frozenset(), min((one.minimum_ttl for one in _chains(error)), default=0))
    except (TimeoutError, dns.exception.DNSException, OSError, ValueError) as error:
        # ValueError: the file has a line that is no address, or bytes that are no text.
        raise LookupFailed(str(error) or type(error).__name__) from error
    addresses = frozenset(str(one) for one in found.rrset or ())
    return Answer(addresses, found.chaining_result.minimum_ttl)


def _chains(error: dns.resolver.NXDOMAIN):
    return [response.resolve_chaining() for response in error.responses().values()]
