# SPDX-License-Identifier: Apache-2.0
"""The program `heddle-host`: its verbs, and the modules that it runs for Ansible."""
