"""What the table of options is to IPython: arguments of a magic, help, and ``%config Autograd``."""

import re
import shlex
import warnings
from argparse import SUPPRESS, BooleanOptionalAction
from dataclasses import Field
from functools import partial
from typing import Any, Self

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument, magic_arguments
from traitlets import Bool, Enum, Int, TraitError, TraitType, Unicode, validate
from traitlets.config import Config, Configurable

from nbgrad.core.suggestions import nearest
from nbgrad.options import TABLE, check, configured, flag, optional

MAGIC = "%%autograd"
LISTED = "%autograd help lists the options."
COMMANDS = {
    "status": "say whether cells are recorded, and what was recorded last",
    "on": "record every cell from the next one on, with the options that follow",
    "off": "record only cells that begin with %%autograd",
    "last": "give the last graph, to display it or to ask it: graph = %autograd last",
    "save": "write the last graph to a file: %autograd save net.svg",
    "config": "show the defaults, or set those of the options that follow: %autograd config --view text",
    "help": "list all this, or say more of one command or option: %autograd help depth",
}
"""What the line ``%autograd`` can be told to do."""

# Arguments.


def takes_options(function: Any) -> Any:
    """Decorate a magic whose arguments are the options."""
    function = argument("-h", "--help", action="store_true", default=SUPPRESS, help="show this, run nothing")(function)
    for one in reversed(TABLE):
        function = argument(flag(one), default=SUPPRESS, help=_help(one), **_form(one))(function)
    function = magic_arguments()(function)
    function.parser.allow_abbrev = False  # what is short for one option today may be short for two tomorrow
    return function


def _form(one: Field[Any]) -> dict[str, Any]:
    if one.type is bool:
        return {"action": BooleanOptionalAction}
    if "choices" in one.metadata:  # what is none of them is told by options.check
        return {"metavar": f"{{{','.join(one.metadata['choices'])}}}"}
    read = partial(_read, one)
    return {"type": read, "metavar": "N" if "least" in one.metadata else one.name.upper()}


def _read(one: Field[Any], text: str) -> int | str | None:
    """What a cell gives an option; what is no number is told by options.check."""
    if optional(one) and text.lower() in (written(None), "none"):
        return None
    try:
        return int(text) if "least" in one.metadata else text
    except ValueError:
        return text


def _help(one: Field[Any]) -> str:
    default = one.metadata["default"]
    return one.metadata["help"] if default is None else f"{one.metadata['help']}; default: {written(default)}"


def parsed(parser: Any, line: str) -> dict[str, Any]:
    """The options that ``line`` gives, quoted as in a shell.

    Raises:
        UsageError: the line has something else in it, or a value that is none of the option's; the message names what
            may have been meant.
    """
    try:
        given, extra = parser.parse_known_args(shlex.split(uncommented(line)))
    except (UsageError, ValueError) as error:
        raise UsageError(f"{MAGIC}: {_clearer(str(error))}\n{LISTED}") from None
    if extra:
        wrong = next((word for word in extra if word.startswith("-")), extra[0])
        raise UsageError(f"{MAGIC}: there is no option {wrong}{nearest(wrong, flags())}\n{LISTED}")
    options = dict(vars(given))
    for one in TABLE:
        if one.name in options:
            try:
                check(one, options[one.name])
            except (OSError, RuntimeError, ValueError) as error:
                raise UsageError(f"{MAGIC}: {error}") from None
    return options


def _clearer(message: str) -> str:
    """What argparse says, but how it is written where a value is missing or is one too many."""
    for one in TABLE:
        if message == f"argument {flag(one)}: expected one argument":
            return f"{flag(one)} needs a value, as in: {MAGIC} {one.metadata['example']}"
        if one.type is bool and re.match(f"argument {flag(one)}.*: ignored explicit argument", message):
            return f"{flag(one)} takes no value: write {flag(one)}, or {_off(one)} to switch it off"
    return message


def uncommented(line: str) -> str:
    """``line`` without the comment at its end: a ``#`` in quotes, or in a word, begins none."""
    return re.sub(r"""('[^']*'|"[^"]*")|(?:^|(?<=\s))#.*""", r"\1", line)


def asks_for_help(line: str) -> bool:
    """Whether ``-h``, ``--help`` or a ``?`` that stands alone is among the options."""
    return not {"-h", "--help", "?", "??"}.isdisjoint(uncommented(line).split())


def flags() -> list[str]:
    """Every option as it is written in a cell; a switch can be written in two ways."""
    found = []
    for one in TABLE:
        found += [flag(one), _off(one)] if one.type is bool else [flag(one)]
    return [*found, "--help"]


def _off(one: Field[Any]) -> str:
    return f"--no-{flag(one)[2:]}"


# Help.


def written(value: Any) -> str:
    """A value as a table shows it."""
    if value is None:
        return "-"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def overview() -> str:
    """The commands and the options, a line each."""
    commands = [f"  {name:<8}{what}" for name, what in COMMANDS.items()]
    options = [f"  {flag(one):<20}{_help(one)}" for one in TABLE]
    return "\n".join(["%autograd COMMAND:", *commands, "", f"{MAGIC} OPTIONS, and %autograd on OPTIONS:", *options])


def explained(name: str) -> str:
    """What there is to say of a command, of an option, or of both that have this name.

    Raises:
        UsageError: there is neither.
    """
    command = [f"%autograd {name}: {COMMANDS[name]}"] if name in COMMANDS else []
    wanted = name.removeprefix("--").removeprefix("no-")
    for one in TABLE:
        if wanted in (one.name, flag(one)[2:]):
            kind = "yes or no" if one.type is bool else "a whole number" if "least" in one.metadata else "text"
            kind += ", or none" if optional(one) else ""
            return "\n".join(
                [
                    *(f"{line}\n" for line in command),
                    f"{flag(one)}: {one.metadata['help']}",
                    f"  value      {' or '.join(one.metadata['choices']) if 'choices' in one.metadata else kind}",
                    f"  default    {written(one.metadata['default'])}",
                    f"  now        {written(configured.get(one.name, one.metadata['default']))}",
                    f"  in a cell  {MAGIC} {one.metadata['example']}",
                    f"  in Python  with nbgrad.record({_in_python(one)}) as graph: ...",
                ]
            )
    if command:
        return command[0]
    raise UsageError(f"%autograd help: there is no command or option {name}{nearest(wanted, explainable())}")


def explainable() -> list[str]:
    """What ``%autograd help`` can be asked about."""
    return list(dict.fromkeys([*COMMANDS, *(flag(one)[2:] for one in TABLE)]))


def _in_python(one: Field[Any]) -> str:
    """The example of an option as an argument of ``record``."""
    word, *value = shlex.split(one.metadata["example"])
    if one.type is bool:
        return f"{one.name}={not word.startswith('--no-')}"
    return f"{one.name}={int(value[0]) if 'least' in one.metadata else value[0]!r}"


def settings() -> str:
    """The defaults that hold now, a line each."""
    rows = [
        f"  {one.name:<18}{written(configured.get(one.name, one.metadata['default'])):<8}{one.metadata['help']}"
        for one in TABLE
        if one.metadata.get("every", True)
    ]
    return "\n".join(["Set them with %autograd config --view text, or %config Autograd.view = 'text'.", *rows])


# %config Autograd.


def _trait(one: Field[Any]) -> TraitType[Any, Any]:
    default, facts = one.metadata["default"], one.metadata
    trait: TraitType[Any, Any]
    if one.type is bool:
        trait = Bool(default, help=facts["help"])
    elif "choices" in facts:
        trait = Enum(facts["choices"], default, help=facts["help"])
    elif "least" in facts:
        trait = Int(default, min=facts["least"], allow_none=default is None, help=facts["help"])  # type: ignore[call-overload]  # traitlets' types have allow_none as a constant alone
    else:
        trait = Unicode(default, allow_none=True, help=facts["help"])
    return trait.tag(config=True)


class _Settings(Configurable):
    """The defaults of every ``%%autograd`` cell and of ``nbgrad.record``."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name in self.trait_names(config=True):
            if name in {one.name for one in TABLE}:
                self._remember({"name": name, "new": getattr(self, name)})
                self.observe(self._remember, name)

    @classmethod
    def of(cls, config: Config) -> Self:
        """The settings that IPython's configuration holds, without those that an option cannot have."""
        made = cls()
        for name, value in config["Autograd"].items():
            try:
                made.update_config(Config({"Autograd": {name: value}}))
            except TraitError as error:
                warnings.warn(f"%config Autograd.{name} is not used: {error}", stacklevel=2)
        return made

    @validate(*(one.name for one in TABLE if "check" in one.metadata))
    def _possible(self, proposal: Any) -> Any:
        """Refuse what a type alone lets pass, now and not in every cell that follows."""
        (one,) = (one for one in TABLE if one.name == proposal["trait"].name)
        try:
            check(one, proposal["value"])
        except (RuntimeError, ValueError) as error:
            raise TraitError(str(error)) from None
        return proposal["value"]

    def _remember(self, change: Any) -> None:
        configured[change["name"]] = change["new"]


Autograd: type[_Settings] = type(
    "Autograd",  # what %config calls it
    (_Settings,),
    {"__doc__": _Settings.__doc__, **{one.name: _trait(one) for one in TABLE if one.metadata.get("every", True)}},
)
