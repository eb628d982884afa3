# SPDX-License-Identifier: Apache-2.0
"""Text for people: tables, some names of many, and the word that a misspelt one stands for."""
