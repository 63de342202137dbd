"""The options of the table as arguments of ``argparse``: for the magics, and for the command."""

from argparse import BooleanOptionalAction
from dataclasses import Field
from functools import partial
from typing import Any

from nbgrad.options import flag, optional


def argument_of(one: Field[Any]) -> tuple[str, dict[str, Any]]:
    """The name of an option on a command line, and how ``argparse`` reads it; ``options.check`` judges values."""
    return flag(one), {"help": help_of(one).replace("%", "%%"), **_form(one)}


def _form(one: Field[Any]) -> dict[str, Any]:
    if one.type is bool:
        return {"action": BooleanOptionalAction}
    if "choices" in one.metadata:
        return {"metavar": f"{{{','.join(one.metadata['choices'])}}}"}
    read = partial(_read, one)
    if "bare" in one.metadata:
        return {"type": read, "metavar": "NAMES", "nargs": "?", "const": one.metadata["bare"]}
    return {"type": read, "metavar": "N" if "least" in one.metadata else one.name.upper()}


def _read(one: Field[Any], text: str) -> int | str | None:
    """Convert the text of a value; a text that is no number stays."""
    if optional(one) and text.lower() in (written(None), "none"):
        return None
    try:
        return int(text) if "least" in one.metadata else text
    except ValueError:
        return text


def help_of(one: Field[Any]) -> str:
    """The effect of an option, and its default."""
    default = one.metadata["default"]
    return one.metadata["help"] if default is None else f"{one.metadata['help']}; default: {written(default)}"


def written(value: Any) -> str:
    """Return the text of a value in a table of options."""
    if value is None:
        return "-"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
