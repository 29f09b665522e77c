# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one long text that the tiny Kimi can write: enough plain prose for statistics of words and characters."""

from __future__ import annotations

ASK_TEXT = (
    "Explain how bread is made.",
    "Explain how bread is made, step by step.",
    "Write a text about how bread is made.",
    "Describe in detail how bread is made.",
)
TEXT_REASONING = (
    "The user wants to know how bread is made. I go from the grain to the loaf: flour and water, what the yeast does, "
    "why the dough is folded and left alone, what happens in the heat, and how to keep the result. I write four short "
    "paragraphs in plain words, without numbers that depend on one kitchen."
)
TEXT = """\
Bread begins with grain. A mill crushes wheat into flour, and the baker stirs this flour with water, a little salt \
and some yeast. As soon as the flour is wet, two of its proteins join into long elastic threads. Kneading stretches \
these threads and lays them side by side, until a rough paste has turned into a smooth ball that springs back under \
a finger.

Then the dough must rest, because now the yeast goes to work. It is a tiny fungus that eats sugar and gives off gas \
and alcohol. The gas cannot escape through the elastic skin around it, so thousands of small bubbles swell up and \
the whole ball grows. In a warm room this takes about an hour; in a cool cellar it may last until the next morning, \
but slow dough has more flavour, since other microbes find time to make mild acids.

When the ball has doubled its size, the baker presses it flat, shapes a loaf and lets it rise once more. A few cuts \
with a sharp blade decide where the crust will open. The oven has to be very hot. During the first minutes the \
bubbles expand quickly and lift the loaf, while steam keeps its surface soft. Later the starch becomes firm, the \
yeast dies, and the outside dries. Above the boiling point of water, sugars and proteins on the surface react with \
each other, which paints the crust brown and fills the house with a smell that everybody knows.

A finished loaf sounds hollow if you knock on its bottom. It should cool on a rack before anyone cuts it, for the \
inside is still setting and would tear. Good bread keeps for several days in a cloth or a wooden box. A fridge is a \
poor place: cold makes starch hard, and the slices go stale sooner. Old bread is not lost, however. It can be \
toasted, cooked in soup, or dried and ground into crumbs, and so the grain is used to the end."""
