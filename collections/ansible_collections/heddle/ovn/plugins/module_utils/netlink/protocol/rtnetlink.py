# SPDX-License-Identifier: Apache-2.0
"""Constants of rtnetlink(7) with the names that the kernel has for them; only those that are used.

Sources: linux/rtnetlink.h, linux/if_link.h, linux/if_addr.h, linux/fib_rules.h, and linux/if.h for IFF_UP. Messages are
handled as bytes, which is why the numbers are needed; pyroute2 is not imported here, since it is slow to load.
"""

from __future__ import annotations

import struct

# Types of messages.
RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK, RTM_SETLINK = 16, 17, 18, 19
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
RTM_NEWRULE, RTM_DELRULE, RTM_GETRULE = 32, 33, 34
RTM_NEWNETCONF = 80

# Multicast groups of notifications.
RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV4_RULE, RTNLGRP_IPV4_NETCONF = 5, 7, 8, 24
RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV6_ROUTE, RTNLGRP_IPV6_RULE, RTNLGRP_IPV6_NETCONF = 9, 11, 19, 25

# The fixed parts of messages about links, addresses, and routes; fib_rule_hdr of rules has the layout of rtmsg.
IFINFOMSG, IFADDRMSG, RTMSG = struct.Struct("=BxHiII"), struct.Struct("=BBBBI"), struct.Struct("=BBBBBBBBI")
# An attribute with a number, __u32.
U32 = struct.Struct("=I")

# Links: flag, attributes, and what a dump leaves out.
IFF_UP = 1
IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINK, IFLA_MASTER, IFLA_LINKINFO, IFLA_IFALIAS = 1, 3, 4, 5, 10, 18, 20
IFLA_GROUP, IFLA_PROMISCUITY = 27, 30
IFLA_AF_SPEC, IFLA_NET_NS_FD, IFLA_EXT_MASK = 26, 28, 29
IFLA_INFO_KIND, IFLA_INFO_DATA, IFLA_VRF_TABLE = 1, 2, 1
RTEXT_FILTER_SKIP_STATS = 8

# Addresses: attributes and flags. IPv4 and IPv6 use one bit for a secondary and for a temporary address.
IFA_ADDRESS, IFA_LOCAL, IFA_CACHEINFO, IFA_FLAGS, IFA_PROTO = 1, 2, 6, 8, 11
IFA_F_SECONDARY, IFA_F_TEMPORARY, IFA_F_NODAD, IFA_F_DEPRECATED = 0x01, 0x01, 0x02, 0x20
IFA_F_PERMANENT, IFA_F_NOPREFIXROUTE = 0x80, 0x200

# Routes: attributes, tables, types, scopes (of addresses, too) and flags.
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_PRIORITY = 1, 4, 5, 6
RT_TABLE_MAIN, RT_TABLE_LOCAL = 254, 255
RTN_UNICAST, RTN_BLACKHOLE, RTN_UNREACHABLE, RTN_PROHIBIT = 1, 6, 7, 8
RT_SCOPE_UNIVERSE, RT_SCOPE_LINK = 0, 253
RTM_F_CLONED, RTNH_F_ONLINK = 0x200, 0x4
# Of routes that the kernel makes itself, and of those from router advertisements.
RTPROT_KERNEL, RTPROT_RA = 2, 9

# Rules: attributes, the actions that look up a table and that continue elsewhere, and a flag.
FRA_DST, FRA_IIFNAME, FRA_PRIORITY, FRA_FWMARK, FRA_TABLE, FRA_FWMASK, FRA_PROTOCOL = 1, 3, 6, 10, 15, 16, 21
FR_ACT_TO_TBL, FR_ACT_GOTO = 1, 2
FIB_RULE_INVERT = 0x2
