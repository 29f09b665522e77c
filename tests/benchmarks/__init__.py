# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers, with the peer beside us in the same run. `make benchmark` runs all, `make benchmark ONLY=hub_writers` one.

No number is asserted: a shared or slow machine is no defect. Each table says what its limit was.
"""
