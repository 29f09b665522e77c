# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.deployment import record as records
from ansible_collections.blackwell.serving.plugins.module_utils.deployment.merging import merge, settled
from ansible_collections.blackwell.serving.plugins.module_utils.deployment.record import Request, apply
from ansible_collections.blackwell.serving.plugins.module_utils.deployment.schema import SECTIONS
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError

DECISION = {"name": "max_model_len", "value": 131072, "reason": "fits with 25 % headroom"}
BATTERY: dict[str, Any] = {
    "state": "healthy",
    "invocation_id": "8f1c",
    "seed": 7,
    "checks": [{"name": "exact_set", "status": "pass", "value": 5, "seconds": 1.25, "evidence": "Paris"}],
    "answers": [{"question": "Capital of France?", "answer": "Paris", "reasoning": "Simple fact.", "correct": True}],
}
HEALTH = {"full": BATTERY, "quick": None}


def put(path: Path, section: str, data: Any) -> dict[str, Any]:
    before, after = apply(path, Request("vllm-kimi", "present", section, data), check_mode=False)
    assert (before != after) or before is after
    return after


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vllm-kimi" / "deployment.json"


def test_the_file_lies_below_the_state_directory() -> None:
    assert records.path_of("vllm-kimi") == Path("/var/lib/blackwell-serving/vllm-kimi/deployment.json")


@pytest.mark.parametrize("service", ["", "../x", "a/b", ".", "-x"])
def test_a_name_that_leaves_the_directory_is_refused(service: str) -> None:
    with pytest.raises(ServingError, match="no name of a unit"):
        records.path_of(service)


def test_the_first_section_makes_the_record(path: Path) -> None:
    record = put(path, "decisions", [DECISION])
    assert record["schema_version"] == 1
    assert record["identity"] == {"service": "vllm-kimi"}
    assert [entry["what"] for entry in record["history"]] == ["decisions: max_model_len"]
    assert json.loads(path.read_text()) == record
    assert path.stat().st_mode & 0o7777 == 0o640


def test_the_same_again_rewrites_nothing(path: Path) -> None:
    put(path, "decisions", [DECISION])
    before = (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
    put(path, "decisions", [dict(DECISION)])
    assert (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes()) == before


def test_sections_stand_in_the_order_of_the_schema(path: Path) -> None:
    for section, data in (("notes", [{"name": "a", "text": "b"}]), ("health", HEALTH), ("plan", {"weights_bytes": 1})):
        record = put(path, section, data)
    assert list(record) == ["schema_version", "identity", "plan", "health", "notes", "history"]


@pytest.mark.parametrize(
    ("section", "old", "new", "merged"),
    [
        ("plan", {"weights_bytes": 1, "total_bytes": 2}, {"total_bytes": 3}, {"weights_bytes": 1, "total_bytes": 3}),
        ("measured", {"tokens": 1, "line": "a"}, {"tokens": 2}, {"tokens": 2}),
        ("predicted", {"token_capacity": 1, "block_size": 16}, {"token_capacity": 1}, {"token_capacity": 1}),
        (
            "notes",
            [{"name": "a", "text": "1"}, {"name": "b", "text": "1"}],
            [{"name": "a", "text": "2"}, {"name": "c", "text": "2"}],
            [{"name": "a", "text": "2"}, {"name": "b", "text": "1"}, {"name": "c", "text": "2"}],
        ),
        (
            "retired",
            {"units": ["a"], "freed_bytes": 5},
            {"units": ["b", "a", "b"], "removed_paths": ["/x"], "freed_bytes": 6},
            {"units": ["a", "b"], "freed_bytes": 6, "removed_paths": ["/x"]},
        ),
    ],
)
def test_how_a_section_takes_what_is_new(section: str, old: Any, new: Any, merged: Any) -> None:
    assert merge(old, new, SECTIONS[section]) == merged
    assert merge(None, new, SECTIONS[section]) == new


def test_every_section_says_how_it_is_merged() -> None:
    assert {schema["x-merge"] for schema in SECTIONS.values()} == {"keys", "name", "replace", "union"}


def test_another_measurement_of_the_same_health_is_no_change(path: Path) -> None:
    put(path, "health", HEALTH)
    text = path.read_bytes()
    again = json.loads(json.dumps(HEALTH))
    again["full"]["seed"] = 8
    again["full"]["checks"][0].update(seconds=9.5, value=6, evidence="Paris.")
    again["full"]["answers"] = [{"question": "And of Spain?", "answer": "Madrid"}]
    put(path, "health", again)
    assert path.read_bytes() == text
    again["full"]["checks"][0]["status"] = "fail"
    assert put(path, "health", again)["health"] == again


def test_a_quick_battery_leaves_the_full_one_and_a_full_one_takes_the_quick_one_away(path: Path) -> None:
    put(path, "health", HEALTH)
    failed = {"state": "generating", "checks": [{"name": "count", "status": "fail"}]}
    assert put(path, "health", {"quick": failed})["health"] == {"full": BATTERY, "quick": failed}
    assert put(path, "health", HEALTH)["health"] == HEALTH


def test_settled_takes_only_the_marked_fields() -> None:
    assert settled(HEALTH, SECTIONS["health"]) == {
        "full": {"state": "healthy", "invocation_id": "8f1c", "checks": [{"name": "exact_set", "status": "pass"}]},
        "quick": None,
    }


def test_several_sections_are_one_write_with_a_line_of_history_each(path: Path) -> None:
    sections = {"decisions": [DECISION], "health": HEALTH}
    request = Request("vllm-kimi", sections=sections)
    after = apply(path, request, check_mode=False)[1]
    assert {name: after[name] for name in sections} == sections
    assert [entry["what"] for entry in after["history"]] == ["decisions: max_model_len", "health: full, quick"]
    before = path.stat()
    apply(path, request, check_mode=False)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_flaw_in_one_of_several_sections_writes_none(path: Path) -> None:
    for sections, problem in (
        ({"decisions": [DECISION], "helth": HEALTH}, "no section 'helth'; did you mean health"),
        ({"decisions": [DECISION], "health": {"fll": None}}, "/health/fll is not known, nearest is full"),
        ({"decisions": [DECISION], "notes": [{"name": "HF_TOKEN", "text": "hf_abcdefghijklmnop"}]}, "secret"),
    ):
        with pytest.raises(ServingError, match=problem):
            apply(path, Request("vllm-kimi", sections=sections), check_mode=False)
    assert not path.exists()


def test_check_mode_predicts_and_writes_nothing(path: Path) -> None:
    before, after = apply(path, Request("vllm-kimi", "present", "decisions", [DECISION]), check_mode=True)
    assert before == {}
    assert after["decisions"] == [DECISION]
    assert not path.parent.exists()


def test_reading(path: Path) -> None:
    assert apply(path, Request("vllm-kimi"), check_mode=False) == ({}, {})
    assert not path.parent.exists()
    record = put(path, "decisions", [DECISION])
    assert apply(path, Request("vllm-kimi"), check_mode=False) == (record, record)


def test_absent_takes_a_section_or_all_of_it(path: Path) -> None:
    put(path, "identity", {"repo_id": "nvidia/Kimi-K2.5-NVFP4"})
    put(path, "decisions", [DECISION])
    after = apply(path, Request("vllm-kimi", "absent", "decisions"), check_mode=False)[1]
    assert "decisions" not in after
    assert after["history"][-1]["what"] == "decisions: removed"
    after = apply(path, Request("vllm-kimi", "absent", "identity"), check_mode=False)[1]
    assert after["identity"] == {"service": "vllm-kimi"}
    before, after = apply(path, Request("vllm-kimi", "absent", "decisions"), check_mode=False)
    assert before == after
    after = apply(path, Request("vllm-kimi", "absent"), check_mode=True)[1]
    assert (after, path.exists()) == ({}, True)
    after = apply(path, Request("vllm-kimi", "absent"), check_mode=False)[1]
    assert (after, path.exists()) == ({}, False)
    assert apply(path, Request("vllm-kimi", "absent"), check_mode=False) == ({}, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is damaged"),
        ("[]", "no deployment record"),
        ('{"a": 1}', "no deployment record"),
        ('{"schema_version": 2, "history": []}', "another version"),
        ('{"schema_version": 1, "history": [], "identity": {"service": "other"}}', "another service"),
        ('{"schema_version": 1, "history": []}', "another service"),
    ],
)
@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_file_that_is_no_record_of_ours_is_left_alone(path: Path, text: str, message: str, state: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    request = Request("vllm-kimi", state, "notes" if state == "present" else None, [] if state == "present" else None)
    with pytest.raises(ServingError, match=message) as caught:
        apply(path, request, check_mode=False)
    assert str(path) in str(caught.value)
    assert path.read_text() == text


def test_a_section_that_does_not_fit_can_be_removed_and_nothing_else_be_done(path: Path) -> None:
    record = put(path, "decisions", [DECISION])
    path.write_text(json.dumps({**record, "measured": {"tokens": "many"}}))
    for request in (Request("vllm-kimi"), Request("vllm-kimi", "present", "plan", {"weights_bytes": 1})):
        with pytest.raises(ServingError, match="/measured/tokens is string, expected integer or null"):
            apply(path, request, check_mode=False)
    after = apply(path, Request("vllm-kimi", "absent", "measured"), check_mode=False)[1]
    assert after["decisions"] == [DECISION]


@pytest.mark.parametrize(
    ("section", "data", "message"),
    [
        ("measured", {"tokns": 1}, "/measured/tokns is not known, nearest is tokens"),
        ("decisions", {"name": "a"}, "/decisions is object, expected array"),
        ("decisions", None, "/decisions is null, expected array"),
        ("decisions", [{"name": "a"}] * 4, r"; 3 more\. Correct the option data"),
        ("identity", {"service": "other"}, "names another service"),
        ("measured", {"environment": {"HF_TOKEN": "canary"}}, "/measured/environment/HF_TOKEN"),
    ],
)
def test_data_that_does_not_fit_is_one_error_and_nothing_is_written(
    path: Path, section: str, data: Any, message: str
) -> None:
    with pytest.raises(ServingError, match=message) as caught:
        put(path, section, data)
    assert "canary" not in str(caught.value)
    assert not path.exists()


def test_data_has_no_place_beside_absent(path: Path) -> None:
    with pytest.raises(ServingError, match="no meaning with state absent"):
        apply(path, Request("vllm-kimi", "absent", "notes", []), check_mode=False)


def _note(path: Path, number: int) -> None:
    put(path, "notes", [{"name": f"note {number}", "text": "x"}])


def test_writers_at_the_same_time_lose_nothing(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_note, args=(path, number)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(20)
    record = json.loads(path.read_text())
    assert sorted(note["name"] for note in record["notes"]) == [f"note {number}" for number in range(8)]
    assert len(record["history"]) == 8
    assert [entry.name for entry in path.parent.iterdir()] == ["deployment.json"]


def test_a_lock_that_does_not_come_free_is_an_error(tmp_path: Path) -> None:
    with (
        records.locked(tmp_path),
        pytest.raises(ServingError, match=r"was not free within 0\.1 s"),
        records.locked(tmp_path, timeout=0.1),
    ):
        raise AssertionError("two at once")
