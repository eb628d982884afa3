# SPDX-License-Identifier: Apache-2.0
"""`heddle-host`: the same code as the modules, as a program that keeps a host's share in place without a playbook."""
