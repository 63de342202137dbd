"""The language of the texts that people read: what the checks of the course say, and what a picture says.

The code has its texts in English. A catalogue, ``nbgrad/locale/LANGUAGE/LC_MESSAGES/nbgrad.mo``, has them in another
language; ``tools/translate.py`` keeps it in step with the code. A text without a translation stays English.
"""

import gettext
import os
from functools import cache
from pathlib import Path
from typing import Any
from warnings import warn

LANGUAGE = "NBGRAD_LANGUAGE"
"""The environment variable that names the language, as "de". It is read whenever a text is made."""

SOURCE = "en"
FOLDER = Path(__file__).resolve().parents[1] / "locale"
DOMAIN = "nbgrad"


def translate(text: str, /, **values: Any) -> str:
    """A text in the language that ``NBGRAD_LANGUAGE`` names.

    Args:
        text: in English. If there are values, their names stand in it in braces, as for ``str.format``.
        values: what the braces stand for. A value that is a text itself is translated, too, if it is in the catalogue.
    """
    language = os.environ.get(LANGUAGE) or SOURCE
    if language == SOURCE:
        return text.format(**values) if values else text
    said = _catalogue(language).gettext
    if not values:
        return said(text) if text else ""  # the empty text is the key of the catalogue's header
    return said(text).format(**{name: _value(value, said) for name, value in values.items()})


def _value(value: Any, said: Any) -> Any:
    return said(value) if type(value) is str and value else value


def languages() -> list[str]:
    """The languages that there are: English, and those with a catalogue."""
    return [SOURCE, *sorted(path.parents[1].name for path in FOLDER.glob(f"*/LC_MESSAGES/{DOMAIN}.mo"))]


@cache
def _catalogue(language: str) -> gettext.NullTranslations:
    if language not in languages():
        known = ", ".join(languages())
        warn(f"{LANGUAGE}={language!r}: there is no such language, only {known}. Texts are English.", stacklevel=3)
        return gettext.NullTranslations()
    return gettext.translation(DOMAIN, FOLDER, [language])
