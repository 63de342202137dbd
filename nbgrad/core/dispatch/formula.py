r"""The formula of a row with other names than its own: ``\frac{a}{b}`` with the names ``x`` and ``h_1``.

A row's formula calls each input, setting and result by a **symbol**, a piece of LaTeX such as ``x``, ``\beta`` or
``x_1``. Most rows do not list their symbols: ``LETTERS`` says, for the name of an argument, which letters formulas use.
A row whose formula has other symbols gives them as ``symbols``. The result is ``y`` and its gradient ``\bar{y}``.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from nbgrad.core.engine.node import OpInfo

SERIES = r"{0}_1, \ldots, {0}_n"
"""How a formula writes a list of tensors; the names of its members take its place."""

_GREEK = frozenset(
    {
        *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu"),
        *("xi", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
    }
)

LETTERS: dict[str, tuple[str, ...]] = {
    "batch1": ("A",),
    "batch2": ("B",),
    "bias": ("b",),
    "correction": ("c",),
    "eps": (r"\varepsilon",),
    "index": ("i",),
    "indices": ("i",),
    "input": ("x", "a", "z", "A"),
    "lambd": (r"\lambda",),
    "margin": ("m",),
    "mask": ("m",),
    "mat": ("A",),
    "mat1": ("A",),
    "mat2": ("B",),
    "max": ("h",),
    "min": ("l",),
    "negative_slope": (r"\alpha",),
    "other": ("b",),
    "shape": ("s",),
    "size": ("s",),
    "source": ("s",),
    "src": ("s",),
    "target": ("t",),
    "tensor": ("x",),
    "threshold": ("t",),
    "value": ("v",),
    "values": ("v",),
    "vec": ("v",),
    "weight": ("W", "w"),
}
"""The symbols that formulas use for an argument, by its name. A row uses the first one that its formulas contain."""

_NEUTRAL = {"min": r"-\infty", "max": r"\infty"}
"""The symbol for an argument that a call left out, where it is neither an addend nor a factor."""

_TOKEN = re.compile(
    r"""\\(?:text|operatorname\*?|mathrm|mathbf|mathit|mathsf|mathcal|mathbb|mathfrak|mathbin|boldsymbol|begin|end)
        \s*\{(?:[^{}\\]|\\.)*\}
      | \\[a-zA-Z]+
      | \\.
      | \d+(?:\.\d+)?
      | \S""",
    re.VERBOSE,
)
_NAME = re.compile(r"[^\W\d]\w*(?:\.\w+|\[\d+\])*")
_INDEXED = re.compile(r"([^\W\d_]|[a-z]+)_?(\d+|(?<=_)[^\W_])")
_OPAQUE = re.compile(r"\\(?:mathrm|mathbf|mathit|mathsf|mathcal|mathbb|mathfrak|boldsymbol)\b|\\text\b")
_LETTER = re.compile(r"[^\W\d_]")
_SCIENTIFIC = re.compile(r"(-?\d+(?:\.\d+)?)e([-+]?\d+)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")

_ACCENTS = {r"\bar": r"\overline", r"\hat": r"\widehat", r"\overline": r"\overline"}
"""Commands that draw something over a symbol, and those that draw it over a long one."""

_TAKES_ONE = frozenset({"_", "^", r"\sqrt", *_ACCENTS})
"""Commands that take the one token or the one group after them."""

_PLUS = frozenset({"+", "-", r"\pm", r"\mp"})
_PRODUCT = frozenset({r"\odot"})
"""Products that give the same in any grouping, so a product inside of one needs no brackets."""

_APART = frozenset(
    {
        *("=", "<", ">", ",", ";", ":", "&", r"\\", r"\;", r"\quad", r"\ldots", r"\leq", r"\geq", r"\neq", r"\in"),
        *(r"\notin", r"\ni", r"\sim", r"\to", r"\land", r"\lor", r"\le", r"\ge"),
    }
)
"""Symbols that bind less than a sum: relations and punctuation."""

_OPEN = frozenset({"(", "[", "{", r"\lfloor", r"\lceil", r"\{", r"\langle"})
_CLOSE = frozenset({")", "]", "}", r"\rfloor", r"\rceil", r"\}", r"\rangle"})
_SIZES = frozenset({r"\left", r"\right"})
_BARS = frozenset({"|", r"\|"})
_SPACES = frozenset({r"\,", r"\!", r"\ "})

_ATOM, _TERM, _SUM = 0, 1, 2


class _Token(NamedTuple):
    r"""A token of LaTeX with the spaces after it. A command whose argument is a word, as ``\text``, is one token."""

    text: str
    space: str


class _Written(NamedTuple):
    """A name as it stands in a formula.

    Attributes:
        kind: ``_ATOM`` for one symbol, ``_TERM`` for a product, ``_SUM`` for a sum, a relation or a sequence.
        scripts: the scripts, ``_`` and ``^``, that it ends in. A name that can take no script counts as having both.
        token: whether it is one token.
        number: whether it is a number.
    """

    kind: int
    scripts: frozenset[str]
    token: bool
    number: bool


def formula_with(row: OpInfo, names: Mapping[str, str | None], *, rule: str | None = None) -> str:
    r"""Return a formula of a row in LaTeX with names in place of its symbols.

    ``formula_with(OPS["div"], {"a": "x + 1", "b": "h_1"})`` is ``\frac{x + 1}{h_{1}}``. A sum or a product gets
    brackets where the formula needs them, and so does a name with an index where the formula adds another. A name that
    the formula has for something else, as ``i`` for an index, is written bold.

    Args:
        row: a row of the op table.
        names: the names of inputs, settings and results: LaTeX, or a name of Python's such as ``w4_weight``, which
            ``latex_name`` writes. ``g_NAME`` names the gradient of the result ``NAME``, ``g_out`` that of an op with
            one result. A gradient that gets no name here is written as the result's name with a bar. ``tensors[0]`` and
            the like name the members of a list. A setting may be given as a number. None stands for an input that the
            call left out: the formula loses that addend or factor. Inputs that the formula does not mention are
            ignored.
        rule: the input whose gradient has the wanted formula; None for the formula of the op itself.

    Raises:
        ValueError: the row has no argument or result of such a name, or no rule for that input, or a name is no LaTeX
            that can stand in a formula: it is empty, or its braces do not match.
    """
    _check_names(row, names)
    if rule is not None and rule not in row.rules:
        raise ValueError(
            f"op {row.name!r} has no gradient rule for {rule!r}: it has rules for {', '.join(row.rules) or 'no input'}"
        )
    latex = row.formula if rule is None else row.rules[rule].formula
    found = symbols(row)
    for name in [name for name, text in names.items() if text is None and name in found]:
        latex = _without(latex, found.pop(name), _NEUTRAL.get(name, ""))
    said = {name: text for name, text in names.items() if text is not None}
    given = {name: text if text == found.get(name) else _latex(row, name, text) for name, text in said.items()}
    _join_members(row, given, found)
    barred = {_barred(found[name]) for name in _inputs(row) if name in found}
    replaced = {}
    for name, symbol in found.items():
        if name in given:
            replaced[symbol] = given[name]
        elif symbol in barred:
            # This gradient of a result looks like an input's symbol with a bar: the input's name must not replace it.
            replaced[symbol] = symbol
    return substituted(latex, replaced)


def _check_names(row: OpInfo, names: Iterable[str]) -> None:
    known = [*arguments(row), *(f"g_{name}" for name in results(row))]
    for name in names:
        if name not in known and name.partition("[")[0] not in _lists(row):
            raise ValueError(
                f"names= has {name!r}, but op {row.name!r} has no such argument or result: it has {', '.join(known)}"
            )


def _join_members(row: OpInfo, given: dict[str, str], found: Mapping[str, str]) -> None:
    """Give each list one name: the names of its members as a sequence or a product, whichever the formula has."""
    for name in _lists(row):
        members = {int(key[len(name) + 1 : -1]): text for key, text in given.items() if key.startswith(f"{name}[")}
        if members and name in found:
            comma = "," in found[name]
            texts = [text if comma else _bracketed(text, _TERM) for _, text in sorted(members.items())]
            given.setdefault(name, (", " if comma else r" \, ").join(texts))


def symbols(row: OpInfo) -> dict[str, str]:
    """The symbols by which the formulas of a row call its inputs, its settings, its results and their gradients.

    Those that ``row.symbols`` has, then an argument's own name if it is a letter, then what ``LETTERS`` has. A name
    that no formula of the row mentions is not in it.
    """
    said: Mapping[str, str] = getattr(row, "symbols", {})
    texts = [_texts(row.formula), *(_texts(rule.formula) for rule in row.rules.values())]
    found = dict(said)
    taken = {_texts(symbol) for symbol in said.values()}
    for name in arguments(row):
        if name in found:
            continue
        for symbol in _conventional(row, name):
            wanted = _texts(symbol)
            if wanted not in taken and any(_places(wanted, text) for text in texts):
                found[name] = symbol
                taken.add(wanted)
                break
    inputs = _inputs(row)
    for position, name in enumerate(results(row)):
        own = "" if name in inputs else found.get(name, "")
        bar = said.get(f"g_{name}") or _barred(own or ("y" if not position else ""))
        wanted = _texts(bar)
        if bar and (f"g_{name}" in said or wanted not in taken) and any(_places(wanted, text) for text in texts):
            found[f"g_{name}"] = bar
    return found


def check_symbols(row: OpInfo, said: Mapping[str, str]) -> None:
    """Check the symbols that a declaration gives.

    Raises:
        ValueError: the row has no argument or result of that name, or two have one symbol, or its formula does not
            have the symbol of an input or a setting. The symbol of a result may stand in a rule's formula alone.
    """
    if not said:
        return
    known = [*arguments(row), *(f"g_{name}" for name in results(row))]
    held: dict[tuple[str, ...], str] = {}
    for name, symbol in said.items():
        if name not in known:
            raise ValueError(
                f"symbols= has {name!r}, but op {row.name!r} has no such argument or result: it has {', '.join(known)}"
            )
        tokens = _texts(symbol)
        if (first := held.setdefault(tokens, name)) != name:
            raise ValueError(f"op {row.name!r}: symbols= gives {first!r} and {name!r} one symbol, {symbol}")
        if name.removeprefix("g_") not in results(row) and not _places(tokens, _texts(row.formula)):
            raise ValueError(
                f"op {row.name!r}: the formula {row.formula} does not have {symbol!r}, the symbol of {name!r}: write "
                "the symbol as the formula has it, or leave the name out of symbols="
            )


def arguments(row: OpInfo) -> tuple[str, ...]:
    """The names that a symbol may stand for: the inputs, a list of them by its own name, the settings, the results."""
    return tuple(dict.fromkeys([*_inputs(row), *row.defaults, *results(row)]))


def _inputs(row: OpInfo) -> tuple[str, ...]:
    members = f"{row.listed}["
    inputs = (name for name in row.inputs if row.listed is None or not name.startswith(members))
    return (*inputs, *((row.listed,) if row.listed else ()))


def results(row: OpInfo) -> tuple[str, ...]:
    """The names of the results that a caller gets; ``out`` for all those of an op that has any number of them."""
    return row.results[: row.shown] or ("out",)


def latex_name(name: str) -> str:
    r"""Write a name of Python's in LaTeX: ``h_1`` as ``h_{1}``, ``beta`` as ``\beta``, ``w4_weight`` upright.

    A letter stays as it is, a letter with a number or with another letter gets an index, and any other name is one
    upright word, ``\mathrm{w4\_weight}``.
    """
    if name in _GREEK:
        return f"\\{name}"
    if _LETTER.fullmatch(name):
        return name
    indexed = _INDEXED.fullmatch(name)
    if indexed and (len(indexed[1]) == 1 or indexed[1] in _GREEK):
        return f"{latex_name(indexed[1])}_{{{indexed[2]}}}"
    escaped = name.replace("_", r"\_")
    return rf"\mathrm{{{escaped}}}"


def substituted(latex: str, replaced: Mapping[str, str]) -> str:
    """Return ``latex`` with each symbol replaced, all at once; a longer symbol before one that it contains."""
    tokens = _tokens(latex)
    texts = tuple(token.text for token in tokens)
    patterns = sorted(((_texts(symbol), written) for symbol, written in replaced.items()), key=lambda one: -len(one[0]))
    hits: dict[int, tuple[int, str]] = {}
    place = 0
    while place < len(texts):
        length = 1
        for pattern, text in patterns:
            if texts[place : place + len(pattern)] == pattern:
                length = len(pattern)
                hits[place] = (length, text)
                break
        place += length
    covered = {i for start, (length, _) in hits.items() for i in range(start, start + length)}
    free = {text for i, text in enumerate(texts) if i not in covered}
    bars = _bar_sides(texts)
    out: list[str] = []
    place = 0
    while place < len(tokens):
        if place not in hits:
            token = tokens[place]
            wide = place + 2 in hits and token.text in _ACCENTS and texts[place + 1] == "{"
            if wide and texts[place + 2 + hits[place + 2][0]] == "}" and not _is_narrow(hits[place + 2][1]):
                token = token._replace(text=_ACCENTS[token.text])
            _put(out, token.text, token.space)
            place += 1
            continue
        length, text = hits[place]
        own = _texts(text) == texts[place : place + length]
        if own:
            text = "".join(token.text + token.space for token in tokens[place : place + length - 1])
            text += tokens[place + length - 1].text
        else:
            if text in free and (text.startswith("\\") or _LETTER.fullmatch(text)):
                text = rf"\boldsymbol{{{text}}}"
            text = _fitted(text, texts, place, place + length, bars, out)
        _put(out, text, tokens[place + length - 1].space)
        place += length
    return "".join(out)


def _without(latex: str, symbol: str, neutral: str) -> str:
    """``latex`` without the addends and the factors that are ``symbol``; ``neutral`` stands for it elsewhere."""
    wanted = _texts(symbol)
    tokens = list(_tokens(latex))
    place = 0
    while place < len(tokens):
        texts = tuple(token.text for token in tokens)
        if texts[place : place + len(wanted)] != wanted:
            place += 1
            continue
        stop = place + len(wanted)
        while stop < len(texts) and texts[stop] in {"_", "^", "'"}:
            stop = stop + 1 if texts[stop] == "'" else _group_end(texts, stop + 1)
        before, after = (texts[i] if 0 <= i < len(texts) else "" for i in (place - 1, stop))
        bars = _bar_sides(texts)
        left, right = _side(texts, place - 1, bars, -1), _side(texts, stop, bars, 1)
        if left == right == "apart":
            alone = place > 1 and (before, after) == ("{", "}") and texts[place - 2] not in _ACCENTS
            replacement = "1" if alone else neutral
            if replacement:
                tokens[place:stop] = [_Token(replacement, tokens[stop - 1].space)]
            place += 1
            continue
        if before in _PRODUCT or (before == "+" and right not in {"binds", "odot"}):
            place -= 1
            tokens[place - 1] = tokens[place - 1]._replace(space=tokens[stop - 1].space)
        elif after in _PRODUCT:
            stop += 1
        elif right == "apart":
            tokens[place - 1] = tokens[place - 1]._replace(space=tokens[stop - 1].space)
        del tokens[place:stop]
    return "".join(token.text + token.space for token in tokens).strip()


def _put(out: list[str], text: str, space: str) -> None:
    """Add a token. A command that ends in a letter is kept apart from a letter after it."""
    if out and text[:1].isalpha() and re.search(r"\\[a-zA-Z]+$", out[-1]):
        out.append(" ")
    out.append(text)
    out.append(space)
    if not space:
        out.pop()


def _fitted(text: str, texts: tuple[str, ...], start: int, stop: int, bars: dict[int, int], out: list[str]) -> str:
    """``text`` as it can stand for the tokens from ``start`` to ``stop``: in brackets or braces where it needs them."""
    written = _written(text)
    scripts = _scripts_after(texts, stop)
    if scripts and (written.kind != _ATOM or scripts & written.scripts):
        return f"({text})"
    before = next((i for i in range(start - 1, -1, -1) if texts[i] not in _SPACES), -1)
    after = next((i for i in range(stop, len(texts)) if texts[i] not in _SPACES), len(texts))
    if before >= 0 and texts[before] in _TAKES_ONE:
        return text if written.token else f"{{{text}}}"
    beside = {texts[i] for i in (before, after) if 0 <= i < len(texts)}
    if beside & _BARS & set(_texts(text)):
        return f"({text})"  # two bars side by side would be another symbol
    if written.number:
        digits = any(map(_NUMBER.fullmatch, texts[after : after + 1])) or re.search(r"\d(?:\\,|\s)*$", "".join(out))
        return f"({text})" if digits else text
    left, right = _side(texts, before, bars, -1), _side(texts, after, bars, 1)
    return text if _stands_alone(text, written.kind, left, right) else f"({text})"


def _stands_alone(text: str, kind: int, left: str, right: str) -> bool:
    """Whether a name of that kind needs no brackets between what stands on its left and on its right."""
    if kind == _TERM:
        return {left, right} <= {"sum", "minus", "apart", "odot"}
    if kind == _SUM:
        unsigned = _texts(text)[0] not in _PLUS
        return right in {"sum", "minus", "apart"} and (left == "apart" or (left == "sum" and unsigned))
    return True


def _side(texts: tuple[str, ...], place: int, bars: dict[int, int], direction: int) -> str:
    """The neighbour of a symbol: something ``apart``, a ``sum``, a ``minus``, an ``odot``, or one that ``binds`` it."""
    if not 0 <= place < len(texts):
        return "apart"
    text = texts[place]
    if text in _SIZES:
        return "apart" if direction > 0 and text == r"\right" else "binds"
    inside = text in (_OPEN if direction < 0 else _CLOSE) or bars.get(place) == direction
    if inside or text in _APART or text.startswith(r"\text"):
        return "apart"
    if text in _PRODUCT:
        return "odot"
    if text == r"\sum" and direction < 0:
        return "minus"
    return "binds" if text not in _PLUS else "minus" if text == "-" else "sum"


def _bar_sides(texts: tuple[str, ...]) -> dict[int, int]:
    """For each bar: -1 if it opens, so that what it encloses comes after it; 1 if it closes."""
    found: dict[int, int] = {}
    for bar in _BARS:
        places = [i for i, text in enumerate(texts) if text == bar]
        found |= {place: 1 if i % 2 else -1 for i, place in enumerate(places)}
    return found


def _scripts_after(texts: tuple[str, ...], place: int) -> frozenset[str]:
    """The scripts, ``_`` and ``^``, that stand at ``place``; a prime is a superscript."""
    found = set()
    while place < len(texts) and texts[place] in {"_", "^", "'"}:
        found.add(texts[place].replace("'", "^"))
        place = place + 1 if texts[place] == "'" else _group_end(texts, place + 1)
    return frozenset(found)


def _group_end(texts: tuple[str, ...], place: int) -> int:
    """The place after the token or the group in braces that is at ``place``."""
    if place < len(texts) and texts[place] in _ACCENTS:
        place += 1
    depth = 0
    while place < len(texts):
        depth += (texts[place] == "{") - (texts[place] == "}")
        place += 1
        if depth <= 0:
            break
    return place


@lru_cache(4096)
def _written(text: str) -> _Written:
    """Analyse a name."""
    texts = _texts(text)
    number = len(texts) == 1 and bool(_NUMBER.fullmatch(texts[0]))
    end, can_have = _atom_end(texts)
    scripts: frozenset[str] = frozenset()
    if end < len(texts):
        scripts = _scripts_after(texts, end)
        while end < len(texts) and texts[end] in {"_", "^", "'"}:
            end = end + 1 if texts[end] == "'" else _group_end(texts, end + 1)
    if end == len(texts):
        kind = _ATOM
    else:
        outside = _outside(texts)
        kind = _SUM if any(one in _PLUS or one in _APART or one.startswith(r"\text") for one in outside) else _TERM
    return _Written(kind, scripts if can_have else frozenset("_^"), len(texts) == 1, number)


def _atom_end(texts: tuple[str, ...]) -> tuple[int, bool]:
    """Where the first symbol of a name ends, without its scripts, and whether it can have scripts."""
    first = texts[0]
    if first in {"(", "["}:
        depth = 0
        for place, text in enumerate(texts):
            depth += (text in {"(", "["}) - (text in {")", "]"})
            if not depth:
                return place + 1, True
    if first in _ACCENTS:
        return _group_end(texts, 1), True
    if first == r"\sqrt":
        return _group_end(texts, 1), False
    if first in {r"\frac", r"\tfrac", r"\dfrac"}:
        return _group_end(texts, _group_end(texts, 1)), False
    if first == "{":
        return _group_end(texts, 0), True
    symbol = _LETTER.fullmatch(first) or _NUMBER.fullmatch(first) or _OPAQUE.match(first)
    return (1 if symbol or re.fullmatch(r"\\[a-zA-Z]+", first) else 0), True


def _outside(texts: tuple[str, ...]) -> list[str]:
    """The tokens that no braces and no brackets enclose."""
    depth, found = 0, []
    for text in texts:
        depth += (text in _OPEN) - (text in _CLOSE)
        if not depth:
            found.append(text)
    return found


def _is_narrow(text: str) -> bool:
    r"""Whether a short bar covers it: a letter or one command such as ``\beta``."""
    return bool(_LETTER.fullmatch(text) or re.fullmatch(r"\\[a-zA-Z]+", text))


def _bracketed(text: str, kind: int) -> str:
    """``text`` in brackets, if it binds less than ``kind``."""
    return f"({text})" if _written(text).kind > kind else text


def _latex(row: OpInfo, name: str, text: str) -> str:
    """The LaTeX of a name that was given for ``name``."""
    if _NAME.fullmatch(text):
        return latex_name(text)
    if number := _SCIENTIFIC.fullmatch(text):
        return rf"{number[1]} \cdot 10^{{{int(number[2])}}}"
    texts = _texts(text)
    depth = 0
    for one in texts:
        depth += (one == "{") - (one == "}")
        if depth < 0:
            break
    if depth or not texts:
        lacks = "its braces do not match" if depth else "it is empty"
        raise ValueError(f"{text!r}, the name of {name!r} of op {row.name!r}, cannot stand in a formula: {lacks}")
    return text.strip()


def _conventional(row: OpInfo, name: str) -> Iterable[str]:
    """The symbols that formulas use for an argument or a result of that name, if the row does not say another."""
    if name in results(row) and name not in _inputs(row):
        if row.many:
            return (SERIES.format("y"),)
        own = (name,) if len(name) == 1 else ()
        return own or (("y",) if name == row.results[0] else ())
    if name == row.listed:
        return (SERIES.format("x"),)
    own = (name,) if len(name) == 1 else (f"\\{name}",) if name in _GREEK else ()
    return own + LETTERS.get(name, ())


def _barred(symbol: str) -> str:
    """The symbol of the gradient of a result."""
    if not symbol:
        return ""
    if symbol == SERIES.format("y"):
        return SERIES.format(r"\bar{y}")
    return rf"\bar{{{symbol}}}"


def _lists(row: OpInfo) -> tuple[str, ...]:
    """The names of lists: their members are named by position."""
    return (*((row.listed,) if row.listed else ()), *(("out", "g_out") if row.many else ()))


@lru_cache(4096)
def _tokens(latex: str) -> tuple[_Token, ...]:
    """The tokens of LaTeX, each with the spaces after it."""
    matches = list(_TOKEN.finditer(latex))
    ends = [*(one.start() for one in matches[1:]), len(latex)]
    return tuple(_Token(one[0], latex[one.end() : end]) for one, end in zip(matches, ends, strict=bool(matches)))


@lru_cache(4096)
def _texts(latex: str) -> tuple[str, ...]:
    return tuple(token.text for token in _tokens(latex))


def _places(pattern: tuple[str, ...], texts: tuple[str, ...]) -> bool:
    """Whether ``texts`` contain ``pattern``."""
    size = len(pattern)
    return bool(size) and any(texts[i : i + size] == pattern for i in range(len(texts) - size + 1))
