# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cgroup path is a unit, a container, both or neither."""

from __future__ import annotations

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.cgroups import container_of, manager_root, unit_of
from hypothesis import given, settings
from hypothesis import strategies as st

ID = "deadbeef" * 8
HYBRID = "9:name=systemd:{path}\n8:pids:/x\n4:memory:/y\n1:cpu:/\n0::/\n"


@pytest.mark.parametrize(
    ("path", "unit", "container"),
    [
        ("/system.slice/vllm-kimi.service", "vllm-kimi.service", None),
        ("/system.slice/system-vllm.slice/vllm@0.service", "vllm@0.service", None),
        ("/system.slice/vllm-kimi.service/worker", "vllm-kimi.service", None),
        ("/system.slice/vllm-kimi.service (deleted)", "vllm-kimi.service", None),
        ("/system.slice/_odd.service", "odd.service", None),
        ("/user.slice/user-1000.slice/session-3.scope", "session-3.scope", None),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/x.service", "user@1000.service", None),
        (f"/system.slice/docker-{ID}.scope", f"docker-{ID}.scope", ID),
        (f"/machine.slice/libpod-{ID}.scope/container", f"libpod-{ID}.scope", ID),
        (f"/machine.slice/libpod-{ID}.scope/system.slice/vllm-kimi.service", f"libpod-{ID}.scope", ID),
        (f"/docker/{ID}/system.slice/vllm-kimi.service", None, ID),
        (f"/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope", f"cri-containerd-{ID}.scope", ID),
        (f"/kubepods/besteffort/pod1/{ID}", None, ID),
        ("/", None, None),
        ("/init.scope", "init.scope", None),
    ],
)
def test_paths(path: str, unit: str | None, container: str | None) -> None:
    for text in (f"0::{path}\n", HYBRID.format(path=path)):
        assert unit_of(text) == unit
        assert container_of(text) == container


def test_inside_a_container_its_own_prefix_is_not_a_container() -> None:
    prefix = f"/machine.slice/libpod-{ID}.scope"
    root = manager_root(HYBRID.format(path=f"{prefix}/init.scope"))
    text = HYBRID.format(path=f"{prefix}/system.slice/vllm-kimi.service").replace("memory:/y", f"memory:{prefix}")
    assert root == prefix
    assert unit_of(text, root) == "vllm-kimi.service"
    assert container_of(text, root) is None


def test_the_root_of_a_host_is_empty() -> None:
    assert manager_root("0::/init.scope\n") == ""
    assert manager_root("0::/\n") == ""
    assert manager_root("") == ""


@settings(deadline=None)
@given(st.text())
def test_any_text_is_read_without_a_traceback(text: str) -> None:
    for root in ("", manager_root(text)):
        unit = unit_of(text, root)
        assert unit is None or unit.endswith((".service", ".scope"))
        assert container_of(text, root) is None or len(str(container_of(text, root))) == 64


NAMES = st.text(alphabet="abcz0-_@\\.:", min_size=1, max_size=12)


@settings(deadline=None)
@given(st.lists(NAMES, max_size=3), NAMES.filter(lambda name: not name.startswith("_")), st.booleans())
def test_any_service_below_slices_is_found(slices: list[str], name: str, hybrid: bool) -> None:
    path = "".join(f"/{part}.slice" for part in slices) + f"/{name}.service"
    assert unit_of(HYBRID.format(path=path) if hybrid else f"0::{path}\n") == f"{name}.service"
