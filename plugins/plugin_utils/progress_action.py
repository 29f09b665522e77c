# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The controller half of a module that takes long: it runs in the background on the host, and its progress is shown.

The module gets the option `progress_file` and writes a JSON object there from time to time, atomically; the action
asks for it. The job on the host goes on when the controller is interrupted or loses its connection.
"""

from __future__ import annotations

import contextlib
import posixpath
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from .host_job import FINISHED, GONE, Look, ShellScript, clean, look, parse_look
from .progress_display import IS_TERMINAL, Line, ProgressDisplay
from .quantities import duration, printable

DIRECTORY = "blackwell.serving"  # below Ansible's own folder for jobs, so that ours can be told from others'
FIRST_WAIT_S, LONGEST_WAIT_S = 0.6, 4.0
LONGEST_WAIT_IN_TERMINAL_S = 2.0
RECONNECT_LIMIT_S = 300.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 10.0
LONGEST_JOB_S = 30 * 86400
OWN_KEYS = ("ansible_job_id", "results_file", "started", "finished")

Answer = TypeVar("Answer")


class ProgressAction(ActionBase):  # type: ignore[misc]
    """Run the module of the same name; a subclass says how its progress reads."""

    _supports_check_mode = True
    _supports_async = True

    def describe(self, progress: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> Line | None:
        """The line for a person, from the module's progress and, while it waits, that of other jobs of the host."""
        raise NotImplementedError

    def summary(self, result: Mapping[str, Any]) -> str | None:
        """A last line, after at least one line of progress."""
        return None

    def limit_s(self, arguments: Mapping[str, Any]) -> float:
        """Longest time of the module by its own options; 0 = no limit."""
        return 0

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        shown = boolean(self._task.args.get("show_progress", True), strict=False)
        if self._task.async_val or self._task.check_mode or not shown:
            result.update(self._execute_module(task_vars=task_vars, wrap_async=self._task.async_val))
            return result
        self._vars: dict[str, Any] = task_vars or {}
        shell = self._connection._shell
        before = self.get_shell_option("async_dir", default="~/.ansible_async")
        folder = f"{str(before).rstrip('/')}/{DIRECTORY}"
        try:
            shell.set_option("async_dir", folder)
            result.update(self._run_in_background(f"{folder}/{uuid.uuid4().hex}.progress"))
        finally:
            shell.set_option("async_dir", before)
        return result

    def _run_in_background(self, own_file: str) -> dict[str, Any]:
        asked_for = self._task.args.get("progress_file")  # somebody else wants to look, too
        arguments = {**self._task.args, "progress_file": asked_for or own_file}
        display = self._display_for()
        own_limit = self.limit_s(self._task.args)
        # Ansible's own `timeout` of the task ends the controller's half; the host's half ends with it.
        limit = self._task.timeout or (own_limit + 300 if own_limit else LONGEST_JOB_S)
        self._task.async_val = int(limit)
        try:
            started = self._execute_module(module_args=arguments, task_vars=self._vars, wrap_async=True)
        except AnsibleConnectionFailure:
            raise
        except AnsibleError as error:  # as when an unprivileged user cannot be given the files of a job
            started = {"msg": str(error)}
        finally:
            self._task.async_val = 0
        if "ansible_job_id" not in started:
            why = printable(" ".join(str(started.get("msg")).split()))
            display.say(f"no progress, as no background job can be started there: {why}")
            return dict(self._execute_module(task_vars=self._vars))
        if started.get("failed"):
            started.pop("changed", None)
            return dict(started)
        job_file = str(started["results_file"])
        folder = posixpath.dirname(job_file)  # the same one, as the host expands it
        self._connection._shell.set_option("async_dir", folder)
        own_file = f"{folder}/{own_file.rpartition('/')[2]}"
        state = self._follow(job_file, str(asked_for or own_file), display)
        if state == GONE:
            finished = _gone()
        else:
            finished = self._patiently(lambda: self._status(str(started["ansible_job_id"])), display)
        with contextlib.suppress(AnsibleConnectionFailure):  # a later run sweeps up
            self._shell(clean(job_file, own_file))
        result = _plain(started, finished)
        display.finish(None if result.get("failed") else self.summary(result))
        return result

    def _follow(self, job_file: str, progress_file: str, display: ProgressDisplay) -> str:
        """Show the progress until the job has ended; how it ended."""
        wait, longest = FIRST_WAIT_S, LONGEST_WAIT_IN_TERMINAL_S if IS_TERMINAL else LONGEST_WAIT_S
        while True:
            script = look(job_file, progress_file, wait)
            seen = self._patiently(lambda script=script: self._look(script), display)  # type: ignore[misc]
            if seen.state in (FINISHED, GONE):
                return str(seen.state)
            if seen.progress is not None and not self._task.no_log:
                line = self.describe(seen.progress, seen.others)
                if line is not None:
                    display.update(line)
            wait = min(wait * 1.5, longest)

    def _look(self, script: ShellScript) -> Look:
        answer = self._shell(script)
        seen = parse_look(answer["stdout"])
        if seen is None:
            raise AnsibleConnectionFailure(f"the host gave no answer: {answer['stderr'].strip() or answer['rc']}")
        return seen

    def _shell(self, script: ShellScript) -> dict[str, Any]:
        if self._connection.is_pipelining_enabled(False):
            return dict(self._low_level_execute_command(script.reading, in_data=script.text.encode()))
        return dict(self._low_level_execute_command(script.whole))

    def _status(self, job_id: str) -> dict[str, Any]:
        """The result of a finished job, by Ansible's own means, so that it is what the module alone would give."""
        task = self._task.copy()
        task.args = {"jid": job_id, "mode": "status"}
        task.action = "ansible.builtin.async_status"
        action = self._shared_loader_obj.action_loader.get(
            "ansible.builtin.async_status",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        try:
            return dict(action.run(task_vars=self._vars))
        finally:
            action.cleanup(force=True)

    def _patiently(self, ask: Callable[[], Answer], display: ProgressDisplay) -> Answer:
        """Ask again while the connection is broken, for a while: the job goes on meanwhile."""
        broken_at, pause = 0.0, FIRST_PAUSE_S
        while True:
            try:
                return ask()
            except AnsibleError as error:  # also a timeout of the privilege escalation on a busy host
                now = time.monotonic()
                if not broken_at:
                    broken_at = now
                    display.say(f"connection lost; the task goes on there, trying for {duration(RECONNECT_LIMIT_S)}")
                if now - broken_at > RECONNECT_LIMIT_S:
                    raise AnsibleConnectionFailure(
                        f"{error} - the task goes on on the host: run again to wait for it"
                    ) from error
                with contextlib.suppress(Exception):  # by the plugin of the connection; some have nothing to reset
                    self._connection.reset()
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)

    def _display_for(self) -> ProgressDisplay:
        output = Display()
        host = str(self._vars.get("inventory_hostname", self._play_context.remote_addr))
        if self._task.delegate_to:
            host += f" -> {self._task.delegate_to}"
        alone = len(self._vars.get("ansible_play_batch", ())) == 1 and output.verbosity == 0
        return ProgressDisplay(host, output, terminal=IS_TERMINAL, alone=alone)


def _gone() -> dict[str, Any]:
    return {
        "failed": True,
        "msg": "the task ended on the host without a result: it was killed, or the host was started anew. "
        "Run again: what it has finished is kept",
    }


def _plain(started: Mapping[str, Any], finished: Mapping[str, Any]) -> dict[str, Any]:
    """The module's own result, without what tells that it ran in the background."""
    result = {key: value for key, value in finished.items() if key not in OWN_KEYS}
    for key in ("stdout", "stderr"):
        if not result.get(key):
            result.pop(key, None)
            result.pop(f"{key}_lines", None)
    if result.get("failed") and "cmd" in result and {"data", "outdata"} & result.keys():  # async_wrapper's own words
        result = {**_gone(), "module_stdout": result.get("data", ""), "module_stderr": result.get("stderr", "")}
    for key in ("ansible_facts", "warnings", "deprecations"):
        if key in started:
            kept = started[key]
            result[key] = {**kept, **result.get(key, {})} if isinstance(kept, dict) else [*kept, *result.get(key, [])]
    return result
