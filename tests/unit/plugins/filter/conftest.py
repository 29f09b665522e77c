# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd's own parser, called in its shared library: what a unit's text means to the service manager.

The functions and their flags are those of systemd 252 (src/basic/extract-word.h, env-util.h, env-file.h and
src/shared/specifier.h); config_parse_exec() and exec_child() call them in this order.
"""

from __future__ import annotations

import ctypes
import glob
import os
import tempfile
from collections.abc import Callable
from typing import Any

import pytest

EXTRACT_CUNESCAPE, EXTRACT_UNQUOTE = 1 << 1, 1 << 5
_LIBRARIES = glob.glob("/usr/lib/*/systemd/libsystemd-shared-252.so") + glob.glob(
    "/usr/lib/systemd/libsystemd-shared-252*.so"
)

_Lookup = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
)
_libc = ctypes.CDLL(None)
_libc.strdup.restype = ctypes.c_void_p


class _Specifier(ctypes.Structure):
    _fields_ = (("specifier", ctypes.c_char), ("lookup", _Lookup), ("data", ctypes.c_void_p))


def _expand(_specifier: bytes, _data: int, _root: bytes, _userdata: int, result: Any) -> int:
    result[0] = _libc.strdup(b"<specifier>")
    return 0


_expanded = _Lookup(_expand)
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_TABLE = (_Specifier * (len(_LETTERS) + 1))(*[_Specifier(bytes([letter]), _expanded, None) for letter in _LETTERS])


def _library() -> ctypes.CDLL:
    if not _LIBRARIES:
        pytest.skip("the library of systemd 252 is not installed")
    library = ctypes.CDLL(_LIBRARIES[0])
    library.replace_env_argv.restype = ctypes.POINTER(ctypes.c_char_p)
    return library


def _parse_exec(line: str, environment: dict[str, str]) -> list[str]:
    """The argument vector that a process gets from ExecStart=line."""
    library = _library()
    cursor = ctypes.c_char_p(line.encode())
    words: list[bytes] = []
    while True:
        if cursor.value is not None and (cursor.value == b";" or cursor.value.startswith((b"; ", b";\t"))):
            raise ValueError("a second command begins")
        word = ctypes.c_char_p()
        status = library.extract_first_word(
            ctypes.byref(cursor), ctypes.byref(word), None, EXTRACT_UNQUOTE | EXTRACT_CUNESCAPE
        )
        if status < 0:
            raise ValueError(os.strerror(-status))
        if status == 0:
            break
        assert word.value is not None
        words.append(_specifiers(library, word.value))
    argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    pairs = [f"{name}={value}".encode() for name, value in environment.items()]
    replaced = library.replace_env_argv(argv, (ctypes.c_char_p * (len(pairs) + 1))(*pairs, None))
    return [text.decode() for text in _strings(replaced)]


def _specifiers(library: ctypes.CDLL, word: bytes) -> bytes:
    result = ctypes.c_char_p()
    status = library.specifier_printf(word, ctypes.c_size_t(1 << 20), _TABLE, None, None, ctypes.byref(result))
    if status < 0 or result.value is None:
        raise ValueError(os.strerror(-status))
    return result.value


def _strings(vector: Any) -> list[bytes]:
    result: list[bytes] = []
    while (text := vector[len(result)]) is not None:
        result.append(text)
    return result


def _parse_environment_file(text: str) -> dict[str, str]:
    """The variables that systemd reads from an EnvironmentFile= with this text."""
    library = _library()
    with tempfile.NamedTemporaryFile() as stream:
        stream.write(text.encode())
        stream.flush()
        result = ctypes.POINTER(ctypes.c_char_p)()
        status = library.load_env_file(None, stream.name.encode(), ctypes.byref(result))
    if status < 0:
        raise ValueError(os.strerror(-status))
    pairs = [pair.decode().split("=", 1) for pair in _strings(result)] if result else []
    return dict(pairs)


@pytest.fixture(scope="session")
def parse_exec() -> Callable[[str, dict[str, str]], list[str]]:
    """parse_exec("/bin/a $X", {"X": "1"}) -> ["/bin/a", "1"]: what systemd starts."""
    _library()
    return _parse_exec


@pytest.fixture(scope="session")
def parse_environment_file() -> Callable[[str], dict[str, str]]:
    """parse_environment_file('A="1"') -> {"A": "1"}: what systemd reads."""
    _library()
    return _parse_environment_file
