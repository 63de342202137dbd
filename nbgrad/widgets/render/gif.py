"""Images -> a GIF: of each but the first only the part that has changed."""

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from nbgrad.widgets.render.png import in_few_colours

if TYPE_CHECKING:
    Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_COLOURS = 256
_FULL = 4096
"""So many codes there are before the table begins anew."""


def gif(images: "Iterable[tuple[Bytes, float]]") -> bytes:
    """Write images of one size as a film without an end.

    Args:
        images: pixels of shape (height, width, 4), red, green, blue and opacity, of which the transparent ones become
            white; and how many seconds each image stands.
    """
    parts: list[bytes] = []
    before: Bytes | None = None
    for pixels, seconds in images:
        now = _on_white(pixels)
        if before is None:
            height, width, _ = now.shape
            parts.append(b"GIF89a" + struct.pack("<HHBBB", width, height, 0x70, 0, 0))
            parts.append(b"\x21\xff\x0bNETSCAPE2.0\x03\x01" + struct.pack("<H", 0) + b"\0")
        parts.append(_image(now, before, seconds))
        before = now
    return b"".join([*parts, b"\x3b"])


def _on_white(pixels: "Bytes") -> "Bytes":
    """Pixels of three bytes."""
    colour, opacity = pixels[..., :3].astype(np.uint16), pixels[..., 3:].astype(np.uint16)
    return ((colour * opacity + 255 * (255 - opacity)) // 255).astype(np.uint8)


def _image(now: "Bytes", before: "Bytes | None", seconds: float) -> bytes:
    """The part that is another one than before, which stays where nothing is said of it."""
    top, left, bottom, right = 0, 0, int(now.shape[0]), int(now.shape[1])
    if before is not None:
        changed = (now != before).any(2)
        rows, columns = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
        top, left, bottom, right = (
            (int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1) if rows.size else (0, 0, 1, 1)
        )
    part = np.full((bottom - top, right - left, 4), 255, np.uint8)
    part[..., :3] = now[top:bottom, left:right]
    palette, index = in_few_colours(part)
    table = np.zeros((_COLOURS, 3), np.uint8)
    table[: len(palette)] = palette[:, :3]
    stays = b"\x21\xf9\x04\x04" + struct.pack("<H", round(100 * seconds)) + b"\0\0"
    place = b"\x2c" + struct.pack("<HHHHB", left, top, right - left, bottom - top, 0x87)
    return stays + place + table.tobytes() + b"\x08" + _blocks(_packed(index.tobytes()))


def _blocks(data: bytes) -> bytes:
    """Data in blocks of at most 255 bytes, each after its length."""
    cut = [data[at : at + 255] for at in range(0, len(data), 255)]
    return b"".join([bytes([len(one)]) + one for one in cut]) + b"\0"


def _packed(pixels: bytes) -> bytes:
    """Variable-length codes, each for the longest row of pixels that came before (LZW)."""
    codes, widths = _codes(pixels)
    places = np.arange(max(widths))
    bits = (np.array(codes, np.uint32)[:, None] >> places.astype(np.uint32)) & 1
    return np.packbits(bits[places < np.array(widths)[:, None]].astype(np.uint8), bitorder="little").tobytes()


def _codes(pixels: bytes) -> tuple[list[int], list[int]]:
    """The codes, and how many bits each has."""
    clear, end = _COLOURS, _COLOURS + 1
    codes, widths = [clear], [9]
    known: dict[int, int] = {}  # by a code and the pixel after it
    following, width, row = end + 1, 9, pixels[0]
    for pixel in pixels[1:]:
        key = row << 8 | pixel
        longer = known.get(key)
        if longer is not None:
            row = longer
            continue
        codes.append(row)
        widths.append(width)
        row = pixel
        if following == _FULL:
            codes.append(clear)
            widths.append(width)
            known.clear()
            following, width = end + 1, 9
            continue
        known[key] = following
        width += following == 1 << width  # who reads it counts one behind
        following += 1
    codes += [row, end]
    widths += [width, min(12, width + (following == 1 << width))]
    return codes, widths
