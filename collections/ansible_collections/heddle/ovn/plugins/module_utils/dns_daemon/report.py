# SPDX-License-Identifier: Apache-2.0
"""Where the daemon reports: by name its `addresses`, and `problem` where resolvers did not answer.

A name is there as soon as resolvers have answered or failed once in each family that its network has. Its address sets
in the Northbound database have the addresses of the report before the report has them.
"""

DNS_NAMES_REPORT = "/run/heddle/dns-names.json"
