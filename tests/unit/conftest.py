# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all unit tests share."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no defect of the code under test.
settings.register_profile("serving", deadline=None)
settings.load_profile("serving")
