#!/usr/bin/python
# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hf_shard_download
short_description: Download a model repository from the Hugging Face Hub, resumable, verified and by one writer
version_added: "0.1.0"
description:
  - Resolves the revision to a commit and brings exactly the files of that commit to a folder.
  - Every file is checked against the hash that the Hub publishes while its bytes arrive, and takes its name only when
    they are right. A file that arrives with wrong bytes is fetched once more; then the task fails and names it.
  - What is on disk already is taken over after one pass of hashing, whoever put it there, and not transferred again.
  - A run that ends in the middle, even by C(kill -9) or a reboot, is continued by the next one at the byte that it had
    reached.
  - One writer for each destination, by a lock that ends with the process that holds it, whichever controller started
    it. Downloads of C(huggingface_hub) that are under way in the same folder count as writers too.
  - On a file system that hosts share, where such a lock may be granted to everybody, a file that only one can create
    is claimed as well. The claim of a host that went down is taken over when its file has stood still for 60 seconds.
  - A manifest of the commit is kept below O(dest) in C(.cache/huggingface/blackwell.serving/), where the Hub's own
    tools do not look. With it a later run needs no request when O(revision) is a commit.
  - C(hf download) accepts the folder without a transfer, and C(hf cache verify) accepts it, apart from patched files.
  - After each change the headers of the safetensors files and the index are compared. The task fails when a tensor of
    the index is not in its shard, or the other way round, and names the shard, also when the bytes are as published.
  - A file that M(blackwell.serving.quant_config_patch) has changed is neither damaged nor overwritten, as long as the
    commit publishes the bytes that were patched.
  - Requests that fail for a passing reason (connection lost, no byte for O(stall_timeout), status 408, 425, 429, 500,
    502, 503, 504, an expired address of the content network) are repeated after growing pauses, or after the pause
    that the Hub asks for.
  - The proxy variables and E(SSL_CERT_FILE) of the host are honoured.
author:
  - blackwell.serving contributors (@blackwell-serving)
requirements:
  - huggingface_hub >= 1.31 in the interpreter that runs the module, or in O(python), when the file list of the commit
    is not known yet. In check mode the standard library is enough.
  - hf_xet there for O(engine=xet).
extends_documentation_fragment:
  - blackwell.serving.attributes
  - blackwell.serving.attributes.action
attributes:
  check_mode:
    support: full
    details:
      - Writes nothing. Files that are on disk but not known yet are hashed, to say exactly what would be fetched.
      - Of what would be fetched, the first byte of the largest file is asked for, so that a gated repository and a
        content network that cannot be reached are found.
  diff_mode:
    support: full
    details: One line for each file that changes, with its size and hash.
  action:
    support: full
    details:
      - Runs the module in the background on the host and shows per host how far it is. In check mode, and with the
        task's own C(async), the module runs as it is. So it does, without progress, where no background job can be
        started, as for a user without a home folder.
      - When the play is interrupted, the download goes on on the host; the next run waits for it and says so.
  async:
    support: full
  idempotent:
    support: full
    details: With a branch as O(revision), the first run decides about the commit; O(update) decides again.
  platform:
    support: full
    platforms: linux
  action_group:
    support: full
options:
  repo_id:
    description: Name of the repository, C(namespace/name).
    type: str
    required: true
  dest:
    description:
      - Folder for the files, an absolute path. It is created with its parents.
      - A folder belongs to one repository.
    type: str
    required: true
  revision:
    description:
      - A branch, a tag or a commit of 40 hexadecimal digits.
      - A branch or tag is resolved by the first run; later runs stay at that commit unless O(update) is set.
    type: str
    default: main
  include:
    description:
      - Patterns of the files to download; all files without one.
      - C(*) also matches C(/), and a pattern that ends in C(/) matches all below that folder, as for C(hf download).
    type: list
    elements: str
    default: []
  exclude:
    description: Patterns of files not to download. A file on disk is not removed for it.
    type: list
    elements: str
    default: []
  endpoint:
    description: Address of the Hub or of a mirror of it. Without the option, E(HF_ENDPOINT) of the host is used.
    type: str
    default: https://huggingface.co
  token:
    description:
      - Access token for a private or gated repository.
      - Without the option the host's own is used, by the rules of C(huggingface_hub). That is E(HF_TOKEN), or what
        C(hf auth login) has stored for the user that the task runs as, unless E(HF_HUB_DISABLE_IMPLICIT_TOKEN) is set.
        A stored token is only used when O(endpoint) is the Hub that C(hf) would ask on this host.
      - It is sent to the origin of O(endpoint) only, never to another one that the Hub redirects to.
    type: str
  python:
    description:
      - Python interpreter of the virtual environment that has C(huggingface_hub), such as that of the engine.
      - It is used only when the file list of the commit has to be asked for, and not in check mode.
    type: path
  max_workers:
    description:
      - Files that are fetched at the same time.
      - Files on disk are hashed by as many threads, or by one for each processor that the task may use if these are
        more.
    type: int
    default: 8
  engine:
    description:
      - How bytes are transferred. Whatever the choice, the published hash decides before a file takes its name.
      - V(http) uses HTTP alone; C(hf_xet) is never loaded.
      - V(xet) has C(hf_xet) bring the files that the Hub keeps in its content-addressed storage, one after the other,
        each over many connections, in a process of its own below O(python). When nothing is written for
        O(stall_timeout), that process is killed. After two failures in a row, HTTP is used for the rest of the run,
        and RV(notes) says so. A part of an earlier run is continued over HTTP.
      - V(auto) is HTTP, too, except for files of more than 50 GB, which the Hub serves by C(hf_xet) only. HTTP is the
        rule because it continues a file at any byte after a kill, hashes bytes while they arrive, keeps to
        O(rate_limit_bytes_per_s) and needs little memory, none of which C(hf_xet) does, and because C(hf_xet) is known
        to hang on large repositories. Choose V(xet) where a measurement shows that it is faster on your link.
    type: str
    choices: [auto, http, xet]
    default: auto
  verify:
    description:
      - V(stamp) trusts a recorded verification as long as size, modification time and inode of the file are the same.
      - V(full) hashes every byte again.
      - V(structure) checks the header and the exact size of each safetensors file again, and that index and headers
        agree.
        The data of files that are not known yet is not read, so that they count as verified by structure only; a
        later run with V(stamp) or V(full) hashes them.
    type: str
    choices: [stamp, full, structure]
    default: stamp
  update:
    description: Take the commit that a branch has moved to. Otherwise RV(notes) says that it has moved.
    type: bool
    default: false
  prune:
    description:
      - Remove files that an earlier run downloaded and that the commit does not have, unless somebody else than
        M(blackwell.serving.quant_config_patch) has changed or moved them since. Otherwise RV(notes) names them.
    type: bool
    default: false
  min_free_bytes:
    description:
      - Bytes that have to stay free on the file system of O(dest) after the download.
      - The bytes that are still missing and 5 % more must fit in any case, or the task fails before the first one.
    type: int
    default: 0
  rate_limit_bytes_per_s:
    description: Bytes per second of all transfers together; V(0) is no limit.
    type: int
    default: 0
  lock:
    description: Whether to V(wait) for another writer of O(dest) or to V(fail); both name it.
    type: str
    choices: [wait, fail]
    default: wait
  lock_timeout:
    description: Longest wait for another writer in seconds; V(0) waits as long as that writer lives.
    type: float
    default: 0
  timeout:
    description:
      - Longest time for the whole task in seconds; V(0) is no limit. What has arrived by then is kept and continued
        by the next run.
    type: float
    default: 0
  stall_timeout:
    description: Seconds without a connection, an answer or a byte after which a request counts as failed.
    type: float
    default: 60
  offline:
    description:
      - Send no request. The task fails unless all files are there and the manifest is of this revision.
    type: bool
    default: false
  show_progress:
    description:
      - Whether the task runs in the background on the host and shows how far it is. Without it, and in check mode, the
        module runs as it is, which is a second faster where there is nothing to do.
    type: bool
    default: true
  progress_file:
    description:
      - File that says how far the run is, for whoever wants to show it. The action plugin of this module uses one of
        its own, or this one, an absolute path, when it is given.
      - It is replaced as a whole about twice a second while the module runs, and removed when the task ends or fails;
        after a signal that ends the process it stays as it was. Its folder has to exist. A file that cannot be written
        does not fail the task, and what stands there and is no regular file is left alone. In check mode it is not
        written.
      - One JSON object. C(state) is C(resolving), C(waiting) (for another writer), C(hashing) (looking at what
        is on disk), C(downloading) or C(verifying).
      - C(bytes) and C(shards) have C(done) and C(total), of all wanted files; while C(downloading), bytes that are
        on disk or in parts are done.
      - C(rate_bytes_per_s) is that of the last ten seconds; C(eta_s) are the seconds to the end of the state, or null.
      - C(file) is the file that moved last, C(writer) the other writer that is waited for, each null without one.
      - C(at) is the unix time of writing; it goes on as long as the module lives.
      - |
        Example: C({"state": "downloading", "bytes": {"done": 41000000, "total": 591030000000}, "shards": {"done": 0,
        "total": 119}, "rate_bytes_per_s": 490000000, "eta_s": 1206, "file": "model-00001-of-00119.safetensors",
        "writer": null, "at": 1790000000.123})
    type: path
  owner:
    description:
      - Owner of O(dest), of its folders and of the files, as a name or a number.
      - What is kept below C(.cache) stays with the user that the task runs as; run later tasks as the same one.
    type: str
  group:
    description: Group of O(dest), of its folders and of the files, as a name or a number.
    type: str
  mode:
    description:
      - Mode of the files, octal in quotes or symbolic. New files have C(0644) without it, whatever the umask is.
    type: raw
  directory_mode:
    description: Mode of O(dest) and its folders. New folders have C(0755) without it, whatever the umask is.
    type: raw
seealso:
  - module: blackwell.serving.hf_repo_info
  - module: blackwell.serving.quant_config_patch
"""

EXAMPLES = r"""
- name: Download the model at a pinned commit
  blackwell.serving.hf_shard_download:
    repo_id: nvidia/Kimi-K2.5-NVFP4
    revision: 4b3b2b7e1f6a0c9d8e7f6a5b4c3d2e1f0a9b8c7d
    dest: /data/models/Kimi-K2.5-NVFP4
    python: /opt/vllm/current/bin/python
    min_free_bytes: 50000000000
  register: model

- name: Have the Hub's client on a host without an engine
  ansible.builtin.pip:
    name: huggingface_hub>=1.31
    virtualenv: /opt/hub
    virtualenv_command: python3 -m venv

- name: Download two files of it
  blackwell.serving.hf_shard_download:
    repo_id: nvidia/Kimi-K2.5-NVFP4
    revision: 4b3b2b7e1f6a0c9d8e7f6a5b4c3d2e1f0a9b8c7d
    dest: /data/configs/Kimi-K2.5-NVFP4
    python: /opt/hub/bin/python
    include: [config.json, hf_quant_config.json]

- name: Verify every byte, without a request
  blackwell.serving.hf_shard_download:
    repo_id: nvidia/Kimi-K2.5-NVFP4
    revision: "{{ model.commit }}"
    dest: /data/models/Kimi-K2.5-NVFP4
    verify: full
    offline: true
"""

RETURN = r"""
repo_id:
  description: Name of the repository.
  returned: success
  type: str
  sample: nvidia/Kimi-K2.5-NVFP4
revision:
  description: The revision that was asked for.
  returned: success
  type: str
  sample: main
commit:
  description: The commit whose files are in O(dest), 40 hexadecimal digits.
  returned: success, and on failures after it is known
  type: str
  sample: 4b3b2b7e1f6a0c9d8e7f6a5b4c3d2e1f0a9b8c7d
dest:
  description: The folder, as it was given.
  returned: success
  type: str
  sample: /data/models/Kimi-K2.5-NVFP4
files:
  description: All files that are wanted, and those that are removed.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: Path below O(dest).
      type: str
      sample: model-00001-of-00119.safetensors
    size:
      description: Published size in bytes.
      type: int
      sample: 4999802720
    sha256:
      description: Published hash of the bytes.
      type: str
      returned: for LFS files
    git_sha1:
      description: Published git blob id of the bytes.
      type: str
      returned: for files that are not LFS
    action:
      description:
        - V(kept) was right and known, V(adopted) was right and is known from now on, V(patched) is as
          M(blackwell.serving.quant_config_patch) left it.
        - V(downloaded), V(resumed) (a part was continued) and V(repaired) (another file stood there) were fetched.
        - V(removed) is a file of an earlier commit.
        - In check mode, what would be done.
      type: str
      sample: kept
    reason:
      description: Why the file on disk is not used.
      type: str
      returned: when there is one
      sample: it is a Git LFS pointer, not the file itself
shards:
  description: The wanted safetensors files after the run; in check mode, before it.
  returned: success, and on failures after the files are known
  type: dict
  contains:
    expected:
      description: How many there are in the commit.
      type: int
      sample: 119
    present:
      description: How many are on disk and right.
      type: int
      sample: 119
    missing:
      description: Paths of those that are not there.
      type: list
      elements: str
    corrupt:
      description: Paths of those that are there, or arrived, with wrong bytes.
      type: list
      elements: str
bytes:
  description: Sizes in bytes.
  returned: success
  type: dict
  contains:
    total:
      description: All wanted files.
      type: int
    downloaded:
      description: Received over the network, with C(hf_xet) the sizes of its files; in check mode, what would be.
      type: int
    resumed:
      description: Taken over from parts of earlier runs.
      type: int
    on_disk:
      description: The wanted files as they are on disk now.
      type: int
  sample:
    total: 591030000000
    downloaded: 41000000
    resumed: 4958802720
    on_disk: 591030000000
cleared_orphans:
  description:
    - What no process has open and nobody would continue, removed before free space is measured. These are partial
      files and lock files that C(huggingface_hub) left, parts of contents that the commit does not have, and folders
      in which C(hf_xet) worked for a run that was killed.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: Path below O(dest).
      type: str
    bytes:
      description: Space that it took on disk, in bytes.
      type: int
elapsed_s:
  description: Time of the task in seconds, waiting included.
  returned: success
  type: float
  sample: 1204.3
throughput_bytes_per_s:
  description: Bytes per second of the transfer, verification included; V(0) when nothing was transferred.
  returned: success
  type: int
  sample: 490000000
rate_limited:
  description: How often the Hub answered with status 429.
  returned: success
  type: int
  sample: 0
verified:
  description:
    - V(sha256) when the published hash of every file was compared with its bytes, now or when its stamp was recorded.
    - V(structure) when that is not so for at least one file, because of O(verify=structure).
  returned: success
  type: str
  sample: sha256
manifest:
  description: Path of the manifest.
  returned: success
  type: str
  sample: /data/models/Kimi-K2.5-NVFP4/.cache/huggingface/blackwell.serving/manifest.json
notes:
  description: What a person should know, such as a branch that has moved, or files that the commit does not have.
  returned: success
  type: list
  elements: str
writer:
  description: The other writer.
  returned: when the task fails because of it
  type: str
  sample: pid 4242 on gpu1 since 2026-10-01T08:00:00+00:00
"""

import grp
import os
import pwd
import sys
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

from ansible.module_utils.basic import AnsibleModule, env_fallback, missing_required_lib
from ansible.module_utils.common.respawn import has_respawned
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.safetensors_header import read_header
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.hub.api import Api, Listing
from ansible_collections.blackwell.serving.plugins.module_utils.hub.client import HubClient
from ansible_collections.blackwell.serving.plugins.module_utils.hub.download import Surroundings, download
from ansible_collections.blackwell.serving.plugins.module_utils.hub.progress import Progress
from ansible_collections.blackwell.serving.plugins.module_utils.hub.retry import Retry, timed
from ansible_collections.blackwell.serving.plugins.module_utils.hub.token import cleaned, token_of_host
from ansible_collections.blackwell.serving.plugins.module_utils.hub.transport import Session
from ansible_collections.blackwell.serving.plugins.module_utils.hub.wanted import Wanted
from ansible_collections.blackwell.serving.plugins.module_utils.module import finish, respawn_into

ARGUMENTS = {
    "repo_id": {"type": "str", "required": True},
    "dest": {"type": "str", "required": True},
    "revision": {"type": "str", "default": "main"},
    "include": {"type": "list", "elements": "str", "default": []},
    "exclude": {"type": "list", "elements": "str", "default": []},
    "endpoint": {"type": "str", "default": "https://huggingface.co", "fallback": (env_fallback, ["HF_ENDPOINT"])},
    "token": {"type": "str", "no_log": True},
    "python": {"type": "path"},
    "max_workers": {"type": "int", "default": 8},
    "engine": {"type": "str", "choices": ["auto", "http", "xet"], "default": "auto"},
    "verify": {"type": "str", "choices": ["stamp", "full", "structure"], "default": "stamp"},
    "update": {"type": "bool", "default": False},
    "prune": {"type": "bool", "default": False},
    "min_free_bytes": {"type": "int", "default": 0},
    "rate_limit_bytes_per_s": {"type": "int", "default": 0},
    "lock": {"type": "str", "choices": ["wait", "fail"], "default": "wait"},
    "lock_timeout": {"type": "float", "default": 0},
    "timeout": {"type": "float", "default": 0},
    "stall_timeout": {"type": "float", "default": 60},
    "offline": {"type": "bool", "default": False},
    "show_progress": {"type": "bool", "default": True},
    "progress_file": {"type": "path"},
    "owner": {"type": "str"},
    "group": {"type": "str"},
    "mode": {"type": "raw"},
    "directory_mode": {"type": "raw"},
}


def set_attributes(module: AnsibleModule, path: str, is_folder: bool) -> bool:
    """Whether owner, group or mode were, or in check mode would be, changed."""
    mode = module.params["directory_mode" if is_folder else "mode"]
    changed = module.set_owner_if_different(path, module.params["owner"], False)
    changed = module.set_group_if_different(path, module.params["group"], changed)
    return bool(module.set_mode_if_different(path, mode, changed))


def refuse_impossible_attributes(module: AnsibleModule) -> None:
    """Before the first byte; in check mode, an earlier task may be the one that makes the user and the group."""
    for name, look_up in () if module.check_mode else (("owner", pwd.getpwnam), ("group", grp.getgrnam)):
        wanted = module.params[name]
        try:
            if wanted is not None and not wanted.isdigit():
                look_up(wanted)
        except KeyError:
            remedy = f"Correct {name}, or create it first"
            raise ServingError(f"the {name} does not exist on this host", where=wanted, remedy=remedy) from None
    for name in ("mode", "directory_mode"):
        wanted = module.params[name]
        try:
            if isinstance(wanted, str):
                octal = wanted.isdigit()
                int(wanted, 8) if octal else module._symbolic_mode_to_octal(os.lstat("/"), wanted)
        except ValueError:
            remedy = f'Set {name} to something like "0644" or "u=rw,go=r"'
            raise ServingError(f"{name} is no mode", where=repr(wanted), remedy=remedy) from None


def refuse_what_is_no_interpreter(module: AnsibleModule) -> None:
    """Another program would get the task's arguments to read, the token among them, and may show them."""
    python = module.params["python"]
    if python is None or has_respawned() or not os.access(python, os.X_OK):
        return
    if os.path.isfile(python) and module.run_command([python, "-c", "print(6 * 7)"])[1].strip() == "42":
        return
    raise ServingError("this is no Python interpreter", where=python, remedy="Correct the option python")


def listing(module: AnsibleModule, session: Session, retry: Retry, progress: Progress) -> Listing:
    """The host's huggingface_hub; in check mode, where it may not be installed yet, the standard library."""
    if module.check_mode:
        return Api(session, module.params["repo_id"], retry)
    refuse_what_is_no_interpreter(module)
    with progress.left_to_another_process():
        respawn_into(module, module.params["python"])
    try:
        return HubClient(session, module.params["repo_id"], retry)
    except ImportError as error:
        reason = "to list the repository, here or in the interpreter that the option python names"
        module.fail_json(msg=missing_required_lib("huggingface_hub>=1.31", reason=reason), exception=str(error))
        raise


def run(module: AnsibleModule, arguments: list[str], data: str, started: Callable[[Any], None]) -> tuple[int, str, str]:
    """Status, output and error output of a process; `started` gets it while it runs."""
    status, out, error = module.run_command(arguments, data=data, before_communicate_callback=started)
    return status, out, error


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    options = module.params

    def work() -> dict[str, object]:
        wanted = Wanted(
            **{field.name: options[field.name] for field in fields(Wanted) if field.name in options},
            wait_for_lock=options["lock"] == "wait",
            check_mode=module.check_mode,
        )
        refuse_impossible_attributes(module)
        token = cleaned(options["token"]) or token_of_host(options["endpoint"])
        if token:
            module.no_log_values.add(token)
        session = Session(options["endpoint"], token, stall_s=options["stall_timeout"])
        retry = timed(options["timeout"])
        progress = Progress(None if module.check_mode else options["progress_file"])
        around = Surroundings(
            session,
            retry,
            partial(listing, module, session, retry, progress),
            read_header,
            partial(set_attributes, module),
            progress,
            partial(run, module),
            options["python"] or sys.executable,
        )
        result = download(wanted, around)
        if not module._diff:
            del result["diff"]
        return result

    finish(module, work)


if __name__ == "__main__":
    main()
