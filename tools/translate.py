"""Keep the translations in step with their sources: ``make translations``.

    python -m tools.translate               extract, merge, compile, and say what is missing
    python -m tools.translate --open de     write the messages without a translation to the screen, for a translator
    python -m tools.translate --add es      begin another language

Each language has two catalogues, in gettext's format:

- ``notebooks/locale/LANGUAGE.po``: the text of the lessons (``nbgrad/lab/lesson_text.py``);
- ``nbgrad/locale/LANGUAGE/LC_MESSAGES/nbgrad.po``: the texts of the product (``tools/product_text.py``).

nbgrad reads the compiled ones, ``nbgrad/locale/LANGUAGE/LC_MESSAGES/lessons.mo`` and ``nbgrad.mo``, and ``page.json``,
which a picture brings to its page.

After a change of a source, its messages are merged into the catalogues. A message that is new has no translation. One
that has changed keeps the old translation, marked as fuzzy: it is not used until a translator has looked at it and has
removed the mark. So a made lesson is never wrong, but partly English.
"""

import argparse
import io
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from nbgrad.core.files import replace_file
from nbgrad.core.translation import DOMAIN, FOLDER, PAGE
from nbgrad.lab import lesson_text, localization
from tools import course, pages, product_text, slides

ROOT = course.ROOT
LESSONS = ROOT / "notebooks" / "locale"

Template = Mapping[product_text.Message, set[str]]
"""The messages of a catalogue, in their order, each with the files in which it stands."""

_DATED = re.compile(rb'^"(?:POT-Creation-Date|PO-Revision-Date|Report-Msgid-Bugs-To|Generated-By|Last-Translator).*\n',
                    re.MULTILINE)  # fmt: skip
"""Lines of a header that would differ in each run, or say nothing."""


def lesson_template() -> Template:
    """The messages of all lessons, and those that notebooks, pages and slides have in addition."""
    found: dict[product_text.Message, set[str]] = {
        message: {"nbgrad/lab/localization.py"} for message in localization.MESSAGES
    }
    found |= {message: {"tools/pages.py"} for message in pages.MESSAGES}
    found |= {message: {"tools/slides.py"} for message in slides.MESSAGES}
    for source in course.lessons():
        for message in lesson_text.messages(source.read_text("utf-8")):
            found.setdefault(message, set()).add(source.relative_to(ROOT).as_posix())
    return found


@dataclass(frozen=True)
class Kind:
    """One of the two catalogues of a language.

    Attributes:
        name: of the kind.
        template: gives the messages that its sources have now.
        path: gives the file of a language.
        compiled: gives the file of a language that nbgrad reads.
        page: whether the texts of the page stand beside it.
    """

    name: str
    template: Callable[[], Template]
    path: Callable[[str], Path]
    compiled: Callable[[str], Path]
    page: bool = False


def _catalogue(language: str, name: str) -> Path:
    return FOLDER / language / "LC_MESSAGES" / name


KINDS = (
    Kind(
        "lessons",
        lesson_template,
        lambda language: LESSONS / f"{language}.po",
        lambda language: _catalogue(language, f"{localization.LESSONS}.mo"),
    ),
    Kind(
        "product",
        product_text.template,
        lambda language: _catalogue(language, f"{DOMAIN}.po"),
        lambda language: _catalogue(language, f"{DOMAIN}.mo"),
        page=True,
    ),
)


def languages() -> list[str]:
    """The languages that have catalogues."""
    return sorted(path.stem for path in LESSONS.glob("*.po"))


def read(path: Path, language: str) -> Catalog:
    """A catalogue; an empty one where there is no file."""
    if not path.exists():
        return Catalog(locale=language, fuzzy=False)
    with path.open("rb") as file:
        return read_po(file, locale=language)


def merged(catalogue: Catalog, template: Template) -> Catalog:
    """The catalogue with the messages of the template. One that is gone is kept as obsolete."""
    wanted = Catalog(fuzzy=False)
    for message, files in template.items():
        wanted.add(message, locations=[(file, 0) for file in sorted(files)])
    catalogue.update(wanted, update_creation_date=False)
    return catalogue


def written(catalogue: Catalog) -> bytes:
    """A catalogue as a file, without anything that changes from run to run."""
    catalogue.header_comment = f"# The {catalogue.locale.english_name if catalogue.locale else ''} texts of nbgrad."
    file = io.BytesIO()
    write_po(file, catalogue, width=120, include_lineno=False)
    return _DATED.sub(b"", file.getvalue())


def compiled(catalogue: Catalog) -> bytes:
    """A catalogue in the form that Python's gettext reads: without messages that are fuzzy or not translated."""
    catalogue.creation_date = catalogue.revision_date = datetime.fromtimestamp(0, UTC)
    file = io.BytesIO()
    write_mo(file, catalogue)
    return file.getvalue()


def of_page(catalogue: Catalog) -> bytes:
    """The translated texts of the page, by their English, as JSON."""
    open_ = {message.id for message in missing(catalogue)}
    texts = {
        one.id: one.string
        for one in catalogue
        if one.id and one.id not in open_ and any(file.endswith(".ts") for file, _ in one.locations)
    }
    return (json.dumps(texts, ensure_ascii=False, indent=0) + "\n").encode()


def missing(catalogue: Catalog) -> list[Message]:
    """The messages that stay English: they have no translation, or a fuzzy one."""
    return [one for one in catalogue if one.id and (one.fuzzy or not all(texts(one.string)))]


def texts(message: str | Sequence[str] | None) -> tuple[str, ...]:
    """A text alone, or those for one thing and for several; an empty one if there is none."""
    return (message or "",) if message is None or isinstance(message, str) else tuple(message)


def update(language: str) -> str:
    """Bring both catalogues of a language in step with the sources; return a report of what is missing."""
    lines = []
    for kind in KINDS:
        path = kind.path(language)
        catalogue = merged(read(path, language), kind.template())
        _save(path, written(catalogue))
        _save(kind.compiled(language), compiled(read(path, language)))
        if kind.page:
            _save(path.with_name(PAGE), of_page(read(path, language)))
        open_ = missing(catalogue)
        lines.append(f"{language}, {kind.name}: {len(catalogue) - len(open_)} of {len(catalogue)} messages translated")
        by_file: dict[str, int] = {}
        for message in open_:
            for file, _ in message.locations[:1]:
                by_file[file] = by_file.get(file, 0) + 1
        lines += [f"  {count:4} missing in {file}" for file, count in sorted(by_file.items())]
    return "\n".join(lines)


def _save(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != content:
        replace_file(path, lambda file: file.write_bytes(content))


def main(arguments: list[str]) -> None:
    """Bring all catalogues in step, or show what one of them lacks."""
    parser = argparse.ArgumentParser(description="Keep the translations in step with their sources.")
    parser.add_argument("--open", metavar="LANGUAGE", help="show the messages without a translation")
    parser.add_argument("--add", metavar="LANGUAGE", help="begin a language, such as es")
    given = parser.parse_args(arguments)
    if given.open:
        if given.open not in languages():
            raise SystemExit(f"there are no catalogues of {given.open!r}, only of {', '.join(languages())}")
        for kind in KINDS:
            for message in missing(read(kind.path(given.open), given.open)):
                said = "\n  ".join(texts(message.id))
                print(f"{kind.name}, {', '.join(file for file, _ in message.locations)}:\n  {said}\n")
        return
    for language in sorted({*languages(), *([given.add] if given.add else [])}):
        print(update(language))


if __name__ == "__main__":
    main(sys.argv[1:])
