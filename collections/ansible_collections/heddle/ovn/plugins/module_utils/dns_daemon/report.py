# SPDX-License-Identifier: Apache-2.0
"""Where the daemon reports: by name its `addresses`, and `problem` where resolvers did not answer."""

DNS_NAMES_REPORT = "/run/heddle/dns-names.json"
