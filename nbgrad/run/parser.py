"""The parser of the command line: like Python's own, and its errors suggest what may have been meant."""

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

_CHOICE = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<known>.*)\)")


class CommandParser(argparse.ArgumentParser):
    """A parser that takes no abbreviation of an option: a later version may have a second option that it fits."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **options})

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """The arguments, as for Python's own parser. An option that does not exist ends the command with status 2."""
        given, unknown = self.parse_known_args(args, namespace)
        option = next((word.partition("=")[0] for word in unknown if word.startswith("-")), None)
        if option is not None:
            self.error(f"there is no option {option}{_nearest(option, list(self._option_string_actions))}")
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return given

    def error(self, message: str) -> NoReturn:
        """End the command with status 2 and this message."""
        wrong = _CHOICE.search(message)
        hint = "" if wrong is None else _nearest(wrong["given"], re.findall(r"[\w-]+", wrong["known"]))
        super().error(message + hint)


def _nearest(given: str, known: list[str]) -> str:
    from nbgrad.core.suggestions import nearest  # late: a line without a mistake needs none

    return nearest(given, known)
