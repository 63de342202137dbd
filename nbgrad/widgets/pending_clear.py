"""``clear_output(wait=True)`` waits for the next output of the user: an output of nbgrad does not count.

A notebook's page clears the outputs of a cell when the next output comes, whoever made it, and no message takes a
clear back. So the kernel keeps the message until an output of the user follows, or the cell ends.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import RLock
from typing import Any

_OUTPUTS = ("stream", "display_data", "execute_result", "error", "clear_output", "execute_reply")
"""The messages before which a kept message is sent: outputs, and the end of a cell."""


class _Clears:
    """The messages that a kernel keeps.

    Args:
        session: what sends the messages of the kernel.
    """

    ours = 0
    """How many outputs of nbgrad are being made."""

    waiting = False
    """Whether a message is kept."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._own = session.send
        self._kept: tuple[Any, Any, dict[str, Any]] | None = None
        self._stopped = False
        self._lock = RLock()  # printed text is sent by a thread of the kernel
        session.send = self._put = self._send

    def _send(self, stream: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            kind = message if isinstance(message, str) else message["header"]["msg_type"]
            if kind == "clear_output" and not self._stopped and not args and message["content"].get("wait"):
                self._kept, _Clears.waiting = (stream, message, kwargs), True  # two in a row clear as one
                return message
            if not _Clears.ours and (kind in _OUTPUTS or _moves_outputs(kind, args)):
                self._release()
            return self._own(stream, message, *args, **kwargs)

    def _release(self) -> None:
        kept, self._kept, _Clears.waiting = self._kept, None, False
        if kept is not None:
            stream, message, kwargs = kept
            self._own(stream, message, **kwargs)

    def stop(self) -> None:
        """Send what is kept, and keep nothing more."""
        with self._lock:
            self._stopped = True  # other code may have put its own around ours
            self._release()
            if vars(self._session).get("send") is self._put:
                del self._session.send
                if self._session.send != self._own:
                    self._session.send = self._own


def _moves_outputs(kind: str, args: tuple[Any, ...]) -> bool:
    """Whether the outputs that follow go to another place: a widget of outputs was entered or left."""
    content = args[0] if kind == "comm_msg" and args and isinstance(args[0], dict) else {}
    data = content.get("data") or {}
    return "msg_id" in (data.get("state") or ())


def follow(shell: Any, undo: ExitStack) -> None:
    """Keep such messages of the kernel of ``shell``, if it has one, until ``undo`` is closed."""
    session: Any = getattr(getattr(shell, "kernel", None), "session", None)
    if session is not None:
        undo.callback(_Clears(session).stop)


@contextmanager
def ours() -> Iterator[None]:
    """A block whose output is nbgrad's, not the user's."""
    _flush()  # what the user has printed before
    _Clears.ours += 1
    try:
        yield
    finally:
        _flush()
        _Clears.ours -= 1


def _flush() -> None:
    if _Clears.waiting:  # else it does not matter whose text it is
        sys.stdout.flush()
        sys.stderr.flush()
