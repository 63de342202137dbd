"""The language of the texts that people read: what the checks of the course say, and what a picture says.

The code has its texts in English. A catalogue, ``nbgrad/locale/LANGUAGE/LC_MESSAGES/nbgrad.mo``, has them in another
language, and ``page.json`` beside it has those of the page; ``tools/translate.py`` keeps both in step with the code. A
text without a translation stays English.

Only texts that the code marks are translated, with one of the functions below: never a value in them, such as the name
of a user's tensor. Kinds, ids and names of options are no texts.
"""

import gettext
import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from warnings import warn

LANGUAGE = "NBGRAD_LANGUAGE"
"""The environment variable that names the language, as "de". It is read whenever a text is made."""

SOURCE = "en"
FOLDER = Path(__file__).resolve().parents[1] / "locale"
DOMAIN = "nbgrad"
PAGE = "page.json"
"""The texts of the page by their English, beside the catalogue that has them too."""


def translate(text: str, /, **values: Any) -> str:
    """A text in the language that ``NBGRAD_LANGUAGE`` names.

    Args:
        text: in English. If there are values, their names stand in it in braces, as for ``str.format``.
        values: what the braces stand for. They are written as they are: a word among them needs a call of its own.
    """
    language = _asked()
    if language != SOURCE and text:  # the empty text is the key of the catalogue's header
        text = _catalogue(language).gettext(text)
    return text.format(**values) if values else text


def translate_count(count: int, one: str, several: str) -> str:
    """A number of things, such as "1,200 ops".

    Args:
        count: how many there are.
        one: the text for one of them, with ``{count:,}`` in the place of the number.
        several: the text for any other number in English. Another language has as many forms as its grammar.
    """
    language = _asked()
    if language == SOURCE:
        return (one if count == 1 else several).format(count=count)
    return _catalogue(language).ngettext(one, several, count).format(count=count)


def message(text: str) -> str:
    """Mark a constant for the catalogue, and return it as it is: it is translated where it is shown."""
    return text


def language() -> str:
    """The language of the texts that are made now: English if there is no catalogue for the one that is asked for."""
    asked = _asked()
    return asked if asked in languages() else SOURCE


def _asked() -> str:
    """The language that the environment asks for; it may not exist."""
    # A description of one op has 16 texts. ``os.environ.get`` raises two errors inside where there is no such variable.
    return os.environ[LANGUAGE] if _VARIABLES.get(_KEY) else SOURCE


_VARIABLES: dict[Any, Any] = os.environ._data  # type: ignore[attr-defined]
_KEY = os.environ.encodekey(LANGUAGE)


@cache
def languages() -> list[str]:
    """The languages that there are: English, and those with a catalogue."""
    return [SOURCE, *sorted(path.parents[1].name for path in FOLDER.glob(f"*/LC_MESSAGES/{DOMAIN}.mo"))]


@cache
def page_texts(language: str) -> Mapping[str, str]:
    """The texts of the page in a language, by their English; none if it is English."""
    if language == SOURCE or language not in languages():
        return {}
    texts: dict[str, str] = json.loads((FOLDER / language / "LC_MESSAGES" / PAGE).read_text("utf-8"))
    return texts


@cache
def _catalogue(language: str) -> gettext.NullTranslations:
    if language not in languages():
        known = ", ".join(languages())
        warn(f"{LANGUAGE}={language!r}: there is no such language, only {known}. Texts are English.", stacklevel=3)
        return gettext.NullTranslations()
    return gettext.translation(DOMAIN, FOLDER, [language])
