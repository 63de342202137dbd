"""The name of a line of the user's code in the language of the texts that people read."""

from nbgrad.core.engine.place import Place
from nbgrad.core.translation import translate


def place_text(place: object, cell: str = "") -> str:
    """The line as findings name it.

    Args:
        place: a ``Place``; anything else, such as a line in a saved graph, is written as it is.
        cell: the name of its cell, as in "In [3]"; empty for the cell that runs. A line of a file has no cell.
    """
    if not isinstance(place, Place) or not place.cell:
        return str(place)  # the file and the number are the same in every language
    where = translate("line {line} of {cell}", line=place.line, cell=cell or translate("the cell"))
    return f"{where}, `{place.text}`" if place.text else where
