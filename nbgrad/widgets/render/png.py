"""PNG -> a smaller PNG: the picture of a notebook in 32 colours, enough for its flat boxes and letters.

The renderer writes four bytes for each pixel, each as the difference to a guess from its neighbours. Equal letters are
then no longer equal bytes, and take two and a half times the space.
"""

import zlib
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from nbgrad.widgets.optional_packages import loading

if TYPE_CHECKING:
    Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_COLOURS = 32
_FAR = 12  # this many of the colours are chosen because they are far from all others


def smaller(png: bytes) -> bytes:
    """The same picture in fewer bytes; unchanged where Pillow does not run, or if its kind is not RGBA."""
    try:
        with loading:
            from PIL import Image
        with Image.open(BytesIO(png)) as picture:
            if picture.mode != "RGBA":
                return png
            pixels = np.asarray(picture)
        palette, index = _in_few_colours(pixels)
        made = Image.frombytes("P", picture.size, index.tobytes())
        made.putpalette(palette.tobytes(), "RGBA")
        written = BytesIO()
        made.save(written, "PNG", compress_level=9, compress_type=zlib.Z_FILTERED)  # the smallest of all ways
    except Exception:  # Pillow is missing or broken
        return png
    return written.getvalue()


def _in_few_colours(pixels: "Bytes") -> "tuple[Bytes, Bytes]":
    """The most frequent colours and some far from them, and for each pixel the place of the nearest of these.

    Rare colours are mostly at the edges of letters, but the transparent corners of the card are rare too.
    """
    flat = np.ascontiguousarray(pixels).view(np.uint32).ravel()
    starts = np.flatnonzero(np.concatenate([[True], flat[1:] != flat[:-1]]))  # most pixels are like the one before
    lengths = np.diff(starts, append=flat.size)
    colours, which = np.unique(flat[starts], return_inverse=True)
    order = np.argsort(-np.bincount(which, weights=lengths), kind="stable")
    palette, found = _palette(colours[order].view(np.uint8).reshape(-1, 4))
    index = np.empty_like(found)
    index[order] = found
    return palette, np.repeat(index[which], lengths)


def _palette(colours: "Bytes") -> "tuple[Bytes, Bytes]":
    """The palette, and for each of ``colours`` its place there. ``colours`` are all colours, the most frequent first.

    The numbers are whole and below 2**24, so float32 is exact.
    """
    these = colours.astype(np.float32)
    taken = list(range(min(len(these), _COLOURS - _FAR)))
    squares = (these * these).sum(1)
    distances = squares[:, None] - 2 * these @ these[taken].T + squares[taken]
    index = distances.argmin(1)
    nearest = distances[np.arange(len(these)), index]
    while len(taken) < min(len(these), _COLOURS):
        far = int(nearest.argmax())
        distance = squares - 2 * these @ these[far] + squares[far]
        index[distance < nearest] = len(taken)
        nearest = np.minimum(nearest, distance)
        taken.append(far)
    return colours[taken], index.astype(np.uint8)
