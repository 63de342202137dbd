"""The table of options as IPython needs it: arguments of a magic, help texts, and ``%config Autograd``."""

import re
import shlex
import warnings
from argparse import SUPPRESS
from dataclasses import Field
from typing import Any, Self

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument, magic_arguments
from traitlets import Bool, Enum, Int, TraitError, TraitType, Unicode, validate
from traitlets.config import Config, Configurable

from nbgrad.arguments import argument_of, help_of, written
from nbgrad.core.suggestions import nearest
from nbgrad.options import TABLE, check, check_together, configured, flag, optional

MAGIC = "%%autograd"
LISTED = "%autograd help lists the options."
COMMANDS = {
    "status": "show whether cells are recorded, and the last graph",
    "on": "record every cell from the next one on, with the given options",
    "off": "record only the cells that begin with %%autograd",
    "last": "return the last graph, to display or query it: graph = %autograd last",
    "save": "write the last graph to a file: %autograd save net.svg",
    "config": "show the defaults, or set the given ones: %autograd config --view text",
    "help": "list the commands and options, or explain one of them: %autograd help depth",
}
"""The commands of the line ``%autograd``, each with its help text."""

# Arguments.


def takes_options(function: Any) -> Any:
    """Decorate a magic so that it takes the options as arguments."""
    function = argument("-h", "--help", action="store_true", default=SUPPRESS, help="show this and run nothing")(
        function
    )
    for one in reversed(TABLE):
        name, form = argument_of(one)
        function = argument(name, default=SUPPRESS, **form)(function)
    function = magic_arguments()(function)
    function.parser.allow_abbrev = False  # an abbreviation may fit a second option in a later version
    return function


def parsed(parser: Any, line: str) -> dict[str, Any]:
    """Return the options that ``line`` gives; it is quoted as in a shell.

    Raises:
        UsageError: an option is unknown, or does not allow its value; the message suggests a similar one.
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
    try:
        check_together(options)
    except ValueError as error:
        raise UsageError(f"{MAGIC}: {error}") from None
    return options


def _clearer(message: str) -> str:
    """The message of argparse; if a value is missing or superfluous, a message that shows how to write it."""
    for one in TABLE:
        if message == f"argument {flag(one)}: expected one argument":
            return f"{flag(one)} needs a value, as in: {MAGIC} {one.metadata['example']}"
        if one.type is bool and re.match(f"argument {flag(one)}.*: ignored explicit argument", message):
            return f"{flag(one)} takes no value: write {flag(one)}, or {_off(one)} to switch it off"
    return message


def uncommented(line: str) -> str:
    """Return ``line`` without the comment at its end. A ``#`` in quotes or in a word begins no comment."""
    return re.sub(r"""('[^']*'|"[^"]*")|(?:^|(?<=\s))#.*""", r"\1", line)


def asks_for_help(line: str) -> bool:
    """Whether the options include ``-h``, ``--help`` or a ``?`` as a word of its own."""
    return not {"-h", "--help", "?", "??"}.isdisjoint(uncommented(line).split())


def flags() -> list[str]:
    """List every option as it is written in a cell. A switch has two forms: ``--watch`` and ``--no-watch``."""
    found = []
    for one in TABLE:
        found += [flag(one), _off(one)] if one.type is bool else [flag(one)]
    return [*found, "--help"]


def _off(one: Field[Any]) -> str:
    return f"--no-{flag(one)[2:]}"


# Help.


def overview() -> str:
    """List the commands and the options, each on a line."""
    commands = [f"  {name:<8}{what}" for name, what in COMMANDS.items()]
    options = [f"  {flag(one):<20}{help_of(one)}" for one in TABLE]
    return "\n".join(["%autograd COMMAND:", *commands, "", f"{MAGIC} OPTIONS, and %autograd on OPTIONS:", *options])


def explained(name: str) -> str:
    """Explain the command or the option of this name, or both.

    Raises:
        UsageError: no command and no option has this name.
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
    """List the names that ``%autograd help`` explains."""
    return list(dict.fromkeys([*COMMANDS, *(flag(one)[2:] for one in TABLE)]))


def _in_python(one: Field[Any]) -> str:
    """Write the example of an option as an argument of ``record``."""
    word, *value = shlex.split(one.metadata["example"])
    if one.type is bool:
        return f"{one.name}={not word.startswith('--no-')}"
    return f"{one.name}={int(value[0]) if 'least' in one.metadata else value[0]!r}"


def settings() -> str:
    """List the current defaults, each on a line."""
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
        trait = Int(default, min=facts["least"], allow_none=default is None, help=facts["help"])  # type: ignore[call-overload]  # in traitlets' types allow_none has to be a literal
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
        """Return the settings of IPython's configuration; warn of each value that its option does not allow."""
        made = cls()
        for name, value in config["Autograd"].items():
            try:
                made.update_config(Config({"Autograd": {name: value}}))
            except TraitError as error:
                warnings.warn(f"%config Autograd.{name} is not used: {error}", stacklevel=2)
        return made

    @validate(*(one.name for one in TABLE if "check" in one.metadata))
    def _possible(self, proposal: Any) -> Any:
        """Refuse a value at once that has the right type but is not allowed, instead of in every later cell."""
        (one,) = (one for one in TABLE if one.name == proposal["trait"].name)
        try:
            check(one, proposal["value"])
        except (RuntimeError, ValueError) as error:
            raise TraitError(str(error)) from None
        return proposal["value"]

    def _remember(self, change: Any) -> None:
        configured[change["name"]] = change["new"]


Autograd: type[_Settings] = type(
    "Autograd",  # the name in %config
    (_Settings,),
    {"__doc__": _Settings.__doc__, **{one.name: _trait(one) for one in TABLE if one.metadata.get("every", True)}},
)
