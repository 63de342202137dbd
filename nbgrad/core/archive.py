"""``Archive``: a JSON document and the numbers that belong to it, in one compressed file.

It is a zip archive of two files: ``graph.json``, and ``numbers.safetensors`` in the format of the package safetensors,
which is a length, a header of JSON and the bytes of each array. Both formats are read without running any code, and by
other tools too. What a file says about its sizes is checked before memory is taken for it.
"""

import json
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from io import BytesIO
from math import prod
from pathlib import Path
from stat import S_ISREG
from typing import Any, NamedTuple

import numpy as np

_DOCUMENT, _NUMBERS = "graph.json", "numbers.safetensors"

_BYTES = 1 << 28
"""The most bytes that a member may have when it is inflated."""

_VALUES = 1 << 24
"""The most values in a document: as Python's objects they take up to a GiB."""

_RATIO, _ANYWAY = 200, 1 << 24
"""A member of more than ``_ANYWAY`` bytes is compressed at most to one in so many: those of graphs are to one in 30."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time that stands at each member, so that equal graphs give equal files."""

_DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "|u1"}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}

Array = np.ndarray[Any, Any]


_DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError, OverflowError)
"""The errors of ``zipfile`` where there is no archive, or a header is unusual, as of one with a password."""


class ArchiveError(ValueError):
    """A file is no such archive, or a part of it is damaged: the message says which, without the name of the file."""


class Archive(NamedTuple):
    """A document of JSON, and its arrays by name."""

    document: Any
    arrays: Mapping[str, Array]

    def packed(self) -> bytes:
        """The bytes of the file: equal for equal content.

        Raises:
            ArchiveError: the document is larger than may be read again.
        """
        text = json.dumps(self.document, separators=(",", ":"), allow_nan=False).encode()
        members = {_DOCUMENT: text, _NUMBERS: _safetensors(self.arrays)}
        for name, data in members.items():
            if len(data) > _BYTES or (name == _DOCUMENT and _values(data) > _VALUES):
                raise ArchiveError(f"its {name} would have {len(data):,} bytes, more than can be read again")
        made = BytesIO()
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
        return made.getvalue()

    @classmethod
    def unpacked(cls, path: str | os.PathLike[str]) -> "Archive":
        """Read the archive in a file.

        Raises:
            ArchiveError: it is none.
            OSError: the file cannot be read.
        """
        found = Path(path).stat()
        if not S_ISREG(found.st_mode):  # to open a pipe would wait for a writer
            raise ArchiveError("it is no ordinary file")
        if found.st_size > 2 * _BYTES:
            raise ArchiveError(f"it has {found.st_size:,} bytes, more than such a file has")
        try:
            with zipfile.ZipFile(BytesIO(Path(path).read_bytes())) as archive:
                document, numbers = _members(archive)
        except ArchiveError:
            raise
        except _DAMAGED:
            raise ArchiveError("it is damaged, or no graph that nbgrad has written") from None
        return cls(_document(document), _arrays(numbers))


def _members(archive: zipfile.ZipFile) -> tuple[bytes, bytes]:
    """The content of the two members. They are found by their names, and nothing is written to the disk."""
    known = {info.filename: info for info in archive.infolist()}
    if set(known) != {_DOCUMENT, _NUMBERS} or len(archive.infolist()) != len(known):
        raise ArchiveError("it is an archive of another kind")
    return _inflated(archive, known[_DOCUMENT]), _inflated(archive, known[_NUMBERS])


def _inflated(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.compress_type not in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        raise ArchiveError("it is an archive of another kind")
    if info.file_size > _BYTES or info.file_size > max(_ANYWAY, _RATIO * info.compress_size):
        raise ArchiveError(f"its {info.filename} would have {info.file_size:,} bytes when it is unpacked")
    with archive.open(info) as member:
        found = member.read(info.file_size + 1)
        if len(found) != info.file_size or member.read(1):
            raise ArchiveError(f"its {info.filename} has another size than it says")
    return found


def _values(data: bytes) -> int:
    """At least as many as the values in a document: each has a comma or a bracket before it."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def _document(data: bytes) -> Any:
    if _values(data) > _VALUES:
        raise ArchiveError(f"its {_DOCUMENT} has more than {_VALUES:,} values")
    try:
        return json.loads(data, parse_constant=_refused)
    except (ValueError, RecursionError):
        raise ArchiveError(f"its {_DOCUMENT} cannot be read") from None


def _refused(text: str) -> Any:
    raise ValueError(text)


def _safetensors(arrays: Mapping[str, Array]) -> bytes:
    """The arrays in the format of safetensors."""
    header: dict[str, Any] = {}
    parts, begin = list[bytes](), 0
    for name, array in sorted(arrays.items(), key=lambda one: (-one[1].dtype.itemsize, one[0])):
        held = array.tobytes()
        offsets = [begin, begin + len(held)]
        header[name] = {"dtype": _NAMES[array.dtype.str], "shape": list(array.shape), "data_offsets": offsets}
        parts.append(held)
        begin += len(held)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<Q", len(text)), text, *parts])


def _arrays(data: bytes) -> dict[str, Array]:
    """The arrays in bytes of the format of safetensors, which cannot be written to."""
    try:
        size = struct.unpack_from("<Q", data)[0]
        if size > len(data) - 8:
            raise ValueError(size)
        header, begin = json.loads(data[8 : 8 + size]), 8 + size
        found = {str(name): _array(data, begin, **facts) for name, facts in header.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, struct.error):
        raise ArchiveError(f"its {_NUMBERS} cannot be read") from None
    return found


def _array(data: bytes, begin: int, dtype: str, shape: list[int], data_offsets: list[int]) -> Array:
    """An array of the header; raise a ValueError or a TypeError if it has no such bytes."""
    start, end = data_offsets
    if not all(type(one) is int and one >= 0 for one in (*shape, start, end)):
        raise ValueError(shape)
    made = np.dtype(_DTYPES[dtype])
    if end - start != prod(shape) * made.itemsize or begin + end > len(data):
        raise ValueError(data_offsets)
    return np.frombuffer(data, made, prod(shape), begin + start).reshape(shape)
