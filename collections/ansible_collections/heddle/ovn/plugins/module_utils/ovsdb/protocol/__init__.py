# SPDX-License-Identifier: Apache-2.0
"""The OVSDB protocol (RFC 7047): connections, TLS, clusters, schemas, the client."""
