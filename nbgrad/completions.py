"""Completions of commands, options and their values on the lines of the magics."""

import re

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from nbgrad.magic_arguments import COMMANDS, MAGIC, explainable, flags
from nbgrad.options import TABLE, flag


@context_matcher()  # type: ignore[untyped-decorator, unused-ignore]  # IPython's has types in some versions only
def complete(context: CompletionContext) -> SimpleMatcherResult:
    """Complete commands, options and their values on a line that begins with ``%autograd`` or ``%%autograd``."""
    line = re.sub(r"^\s*(\w+\s*=\s*)?(?=%)", "", context.text_until_cursor)  # as in graph = %autograd last
    words = re.sub(r"(?<= )(--[\w-]+)=", r"\1 ", line).split(" ")
    magic, before = words[0], [word for word in words[1:-1] if word]
    above = context.full_text.split("\n")[: context.cursor_line]
    in_body = magic == MAGIC and not all(one.startswith("%%") and not one.startswith(MAGIC) for one in above)
    if len(words) < 2 or magic not in ("%autograd", MAGIC) or in_body:
        return {"completions": []}
    found = [word for word in _possible(magic, before) if word.startswith(words[-1])]
    skipped = len(words[-1]) - len(context.token)  # IPython's token may begin later than this word
    return {
        "completions": [
            SimpleCompletion(word[skipped:], type="option" if word.startswith("-") else "value") for word in found
        ],
        "suppress": bool(found),
    }


def _possible(magic: str, before: list[str]) -> list[str]:
    """The completions after the words ``before``."""
    by_flag = {flag(one): one for one in TABLE}
    if magic != MAGIC:
        if not before:
            return list(COMMANDS)
        if before[0] == "help":
            return explainable() if len(before) == 1 else []
        if before[0] not in ("on", "config"):
            return []
    last = by_flag.get(before[-1]) if before else None
    if last is not None and last.type is not bool:
        return list(last.metadata.get("choices", last.metadata.get("suggestions", ())))
    return flags()
