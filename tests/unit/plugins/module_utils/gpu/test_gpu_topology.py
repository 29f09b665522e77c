# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links, NUMA nodes and peer access, from real output and from eight cards without NVLink."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.blackwell.serving.plugins.module_utils.gpu.topology import read_topology

REAL = Path(__file__).resolve().parents[3] / "data" / "gpu"


def test_two_cards_with_nvlink() -> None:
    links, access = (REAL / "two_cards_topo.txt").read_text(), (REAL / "two_cards_topo_p2p.txt").read_text()
    assert read_topology(links, access, [0, 1]) == {
        "links": [{"gpus": [0, 1], "link": "NV18", "p2p": "OK"}],
        "nvlink": True,
        "numa": [{"gpu": 0, "node": 0, "cpus": "0-31"}, {"gpu": 1, "node": 0, "cpus": "0-31"}],
        "p2p": True,
    }


def test_one_card_has_no_links() -> None:
    topology = read_topology((REAL / "one_card_topo.txt").read_text(), None, [0])
    assert topology == {"links": [], "nvlink": False, "numa": [{"gpu": 0, "node": 0, "cpus": "0-15"}], "p2p": True}


def test_a_pair_without_peer_access() -> None:
    access = (REAL / "two_cards_topo_p2p.txt").read_text().replace("GPU0\tX\tOK", "GPU0\tX\tCNS")
    topology = read_topology((REAL / "two_cards_topo.txt").read_text(), access, [0, 1])
    assert topology is not None and topology["p2p"] is False and topology["links"][0]["p2p"] == "CNS"


def test_unknown_peer_access_is_not_no_access() -> None:
    topology = read_topology((REAL / "two_cards_topo.txt").read_text(), None, [0, 1])
    assert topology is not None and topology["p2p"] is None


def test_another_output_is_no_topology() -> None:
    assert read_topology("Failed to get topology\n", None, [0]) is None
    assert read_topology((REAL / "one_card_topo.txt").read_text(), None, [0, 1]) is None
