# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The options of every module that asks an endpoint, see module_utils/endpoint/connection.py."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  api_key:
    description: Key of the endpoint.
    type: str
  ca_path:
    description: File with the certificates that are trusted for an endpoint with TLS.
    type: path
  validate_certs:
    description: Whether the certificate of an endpoint with TLS must be valid.
    type: bool
    default: true
  thinking_parameter:
    description:
      - Name of the switch in C(chat_template_kwargs) that turns thinking on and off.
      - Empty for a model that has no such switch; then nothing is sent.
    type: str
    default: thinking
  python:
    description: Interpreter in which the module goes on, usually that of the environment that holds vLLM.
    type: path
"""
