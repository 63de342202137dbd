"""Files that are written whole or not at all."""

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from errno import EACCES, EBUSY, EINVAL, ENOSYS, ENOTSUP, EPERM, EXDEV
from pathlib import Path
from stat import S_IMODE, S_ISREG

_NOT_REPLACED = (EACCES, EPERM, EBUSY, EXDEV)
"""The errors of a system that cannot replace a file, but may let it be written: its folder takes no new file, another
file system is mounted at its path, or it belongs to another user and lies in a folder that all users share."""


def replace_file(path: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    """Write a file beside ``path``, which takes its place when it is complete: until then the old one stays.

    The new one has the permissions of the old one. A symbolic link stays one, and the file that it leads to is
    replaced. A path that is no ordinary file, such as a device, is written in place; so is a file that the system does
    not let anybody replace.

    Args:
        path: the file, which need not be there yet.
        write: writes the file that it is given, which is there and empty.

    Raises:
        OSError: the file can't be written, and is as it was; ``filename`` is ``path``.
    """
    target = Path(os.path.realpath(path))
    try:
        before = target.stat() if target.exists() else None
        if before is not None and not os.access(target, os.W_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))
        if (before is not None and not S_ISREG(before.st_mode)) or not _replaced(target, before, write):
            write(target)
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def _replaced(target: Path, before: os.stat_result | None, write: Callable[[Path], object]) -> bool:
    """Replace ``target``; False where the system does not let it be replaced."""
    beside = target.with_name(f".nbgrad-{secrets.token_hex(8)}")  # a short name: that of the file may be a long one
    try:
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        write(beside)
        if before is not None:
            _alike(beside, before)
        _settle(beside)
        beside.replace(target)
    except OSError as error:
        if before is None or error.errno not in _NOT_REPLACED:
            raise
        return False
    finally:
        with suppress(OSError):
            beside.unlink()
    return True


def _settle(file: Path) -> None:
    """Wait until the disk has the file: it may say only now that it is full."""
    with file.open("rb+") as opened:
        try:
            os.fsync(opened.fileno())
        except OSError as error:
            if error.errno not in (EINVAL, ENOSYS, ENOTSUP):  # not every file system can say it
                raise


def _alike(file: Path, before: os.stat_result) -> None:
    """Give ``file`` the owner and the permissions that another one has."""
    if hasattr(os, "chown"):
        with suppress(PermissionError):  # only root gives files to others
            os.chown(file, before.st_uid, before.st_gid)
    if file.stat().st_mode != before.st_mode:  # where there are no permissions they cannot be set either
        file.chmod(S_IMODE(before.st_mode))
