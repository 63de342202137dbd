"""Which parts of a sentence are code: the tasks, hints and messages of ``nbgrad.lab`` are plain text, for every screen.

The lessons and the outputs of a notebook show the code of these sentences as code.
"""

import re
from collections.abc import Callable

_NAME = r"(?!(?:and|or|then|with|of|it|that|which|for)\b)[A-Za-z_]\w*"
_INSIDE = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*"
_TRAIL = rf"(?:\.{_NAME}|\({_INSIDE}\)|\[[\w:, .+-]*\])"
_BRACKETS = rf"\((?! )(?=[^()]*[,*+/@=-]|\)|\(){_INSIDE}\){_TRAIL}*"
_ATOM = rf"(?:-?(?:{_NAME}{_TRAIL}*|\d[\d_]*(?:\.\d+)?(?:e-?\d+)?|{_BRACKETS}))"
_OPERATOR = r"(?: (?:\*\*|[*+/-]=|\*|\+|-|/|%|@|==?) |=)"
_KINDS = {
    "formula": rf"(?<![\w.\"]){_ATOM}(?:{_OPERATOR}{_ATOM})+",
    "line": rf"def {_NAME}\({_INSIDE}\): return {_BRACKETS}|(?<=; )return {_NAME}",
    "quoted": r"\"[\w/. ]+\"|'[\w ]+'|\[\w+(?:, \w+)+\]|\{[^{}]*\}|\b\w+/\w+\.py\b",
    "call": rf"(?<!\w){_NAME}{_TRAIL}+|(?<!\w)\.{_NAME}{_TRAIL}*|(?<!\w)\w*_\w*|\((?=[^()]*,|\)){_INSIDE}\)",
    # A sentence that begins with a small letter begins with a name, and what has a shape is a tensor with a name.
    "named": rf"(?:(?<=^)|(?<=[.?] )){_NAME}(?<=\b[a-z])(?= )|(?:(?<=^)|(?<=[.?] ))(?=[a-z]){_NAME}(?= [a-z]+s\b)"
    rf"|(?!tensors?\b|arrays?\b|one\b)\b{_NAME}(?= (?:of shape|has shape|has the shape)\b)",
    "list": r"(?<!')\b(?:[A-Za-z]\d?(?:, \w{1,6})*,? (?:and|or|to) [A-Za-z]\d?|[b-zB-HJ-Z]\d?|[A-Za-z]\d)\b(?!')",
}
_MARKED = re.compile("|".join(f"(?P<{kind}>{form})" for kind, form in _KINDS.items()))
_PROSE = re.compile(r"\b[a-z]{2,} [a-z]{2,}|\b(?:and|or) ")


def marked(text: str, plain: Callable[[str], str] = str) -> str:
    """The text with each part that is code between two backticks.

    Args:
        text: one or several sentences.
        plain: what is done to the text between two parts of code.
    """
    parts, end = [], 0
    for found in _MARKED.finditer(text):
        code = found[0]
        if found.lastgroup in ("call", "formula") and code.startswith("(") and _PROSE.search(code):
            continue  # a remark in brackets
        parts.append(plain(text[end : found.start()]))
        if found.lastgroup == "list":
            parts.append(re.sub(r"\b(?!(?:and|or|to)\b)(\w+)", r"`\1`", code))
        else:
            parts.append(f"`{code}`")
        end = found.end()
    return "".join([*parts, plain(text[end:])])


def marked_like(original: str, text: str, plain: Callable[[str], str] = str) -> str:
    """A translated text with the same parts marked as in its original. Code is not translated, so it is found again.

    Args:
        original: one or several sentences, in English.
        text: the same in another language.
        plain: what is done to the text between two parts of code.
    """
    code = sorted(set(marked(original).split("`")[1::2]), key=len, reverse=True)
    if not code:
        return plain(text)
    found = re.split(rf"(?<!\w)({'|'.join(map(re.escape, code))})(?!\w)", text)
    return "".join(f"`{part}`" if at % 2 else plain(part) for at, part in enumerate(found))
