"""PNG -> a smaller PNG: the picture of a notebook in 32 colours, enough for its flat boxes and letters.

The renderer writes four bytes for each pixel, each as the difference to a guess from its neighbours. Equal letters are
then no longer equal bytes, and take two and a half times the space.
"""

import atexit
import struct
import zlib
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nbgrad.widgets.optional_packages import loading

if TYPE_CHECKING:
    Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOURS = 32
_FAR = 12  # this many of the colours are chosen because they are far from all others
_MARGIN = 8  # bytes before each row: how its guesses are made, and the transparent pixel to the left of its first

# Each byte waits for the one before it, which numpy cannot do in bulk and Python takes seconds for. The names are those
# of the PNG specification: a is the byte to the left, b the one above, c the one above to the left.
_UNFILTER = """
(module
  (memory (export "memory") 1)
  (func $distance (param $from i32) (param $to i32) (result i32)
    (select (i32.sub (local.get $from) (local.get $to)) (i32.sub (local.get $to) (local.get $from))
      (i32.gt_s (local.get $from) (local.get $to))))
  (func $paeth (param $a i32) (param $b i32) (param $c i32) (result i32)
    (local $to_a i32) (local $to_b i32) (local $to_c i32)
    (local.set $to_a (call $distance (local.get $b) (local.get $c)))
    (local.set $to_b (call $distance (local.get $a) (local.get $c)))
    (local.set $to_c (call $distance (i32.add (local.get $a) (local.get $b)) (i32.shl (local.get $c) (i32.const 1))))
    (select (local.get $a)
      (select (local.get $b) (local.get $c) (i32.le_s (local.get $to_b) (local.get $to_c)))
      (i32.and (i32.le_s (local.get $to_a) (local.get $to_b)) (i32.le_s (local.get $to_a) (local.get $to_c)))))
  (func (export "unfilter") (param $at i32) (param $stride i32) (param $end i32)
    (local $filter i32) (local $row_end i32) (local $above i32) (local $a i32) (local $b i32) (local $c i32)
    (loop $row
      (local.set $filter (i32.load8_u (local.get $at)))
      (local.set $row_end (i32.add (local.get $at) (local.get $stride)))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (loop $byte
        (local.set $above (i32.sub (local.get $at) (local.get $stride)))
        (local.set $a (i32.load8_u (i32.sub (local.get $at) (i32.const 4))))
        (local.set $b (i32.load8_u (local.get $above)))
        (local.set $c (i32.load8_u (i32.sub (local.get $above) (i32.const 4))))
        (i32.store8 (local.get $at) (i32.add (i32.load8_u (local.get $at))
          (block $guess (result i32)
            (br_if $guess (local.get $b) (i32.eq (local.get $filter) (i32.const 2)))
            (drop)
            (br_if $guess (call $paeth (local.get $a) (local.get $b) (local.get $c))
              (i32.eq (local.get $filter) (i32.const 4)))
            (drop)
            (br_if $guess (local.get $a) (i32.eq (local.get $filter) (i32.const 1)))
            (drop)
            (br_if $guess (i32.shr_u (i32.add (local.get $a) (local.get $b)) (i32.const 1))
              (i32.eq (local.get $filter) (i32.const 3)))
            (drop)
            (i32.const 0))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br_if $byte (i32.lt_u (local.get $at) (local.get $row_end))))
      (br_if $row (i32.lt_u (local.get $at) (local.get $end))))))
"""


def smaller(png: bytes) -> bytes:
    """The same picture in fewer bytes; unchanged where ``wasmtime`` does not run, or if its kind is not RGBA."""
    width, height, *kind = struct.unpack(">IIBBBBB", png[16:29])
    compiled = _compiled()
    if kind != [8, 6, 0, 0, 0] or compiled is None:
        return png
    filtered = np.frombuffer(zlib.decompress(_data(png)), np.uint8).reshape(height, 1 + 4 * width)
    try:
        pixels = _unfiltered(compiled, filtered)
    except Exception:  # wasmtime is broken
        return png
    return _in_few_colours(pixels)


def _data(png: bytes) -> bytes:
    found, at = [], len(_SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            found.append(png[at + 8 : at + 8 + length])
        at += length + 12
    return b"".join(found)


@cache
def _compiled() -> Any:
    try:
        with loading:
            import wasmtime
        engine = wasmtime.Engine()
        return engine, wasmtime.Module(engine, _UNFILTER)
    except Exception:  # it is missing or broken, or the system forbids making machine code
        return None


# At a later point of the exit wasmtime's module is gone, and each of its objects would print an error.
atexit.register(_compiled.cache_clear)


def _unfiltered(compiled: Any, filtered: "Bytes") -> "Bytes":
    """The pixels, of shape (height, width, 4)."""
    import wasmtime

    height, size = filtered.shape
    stride = _MARGIN + size - 1
    rows = np.zeros((height + 1, stride), np.uint8)  # above the first is a transparent one
    rows[1:, 0] = filtered[:, 0]
    rows[1:, _MARGIN:] = filtered[:, 1:]
    engine, module = compiled
    store = wasmtime.Store(engine)
    exports = wasmtime.Instance(store, module, []).exports(store)
    memory: Any = exports["memory"]
    memory.grow(store, rows.nbytes >> 16)
    memory.write(store, rows.tobytes())
    exports["unfilter"](store, stride, stride, rows.nbytes)  # type: ignore[operator]
    done = np.frombuffer(bytes(memory.read(store, 0, rows.nbytes)), np.uint8).reshape(rows.shape)
    return done[1:, _MARGIN:].reshape(height, -1, 4)


def _in_few_colours(pixels: "Bytes") -> bytes:
    """A PNG of the most frequent colours and of some far from them; each other colour becomes the nearest of these.

    Rare colours are mostly at the edges of letters, but the transparent corners of the card are rare too.
    """
    height, width, _ = pixels.shape
    flat = np.ascontiguousarray(pixels).view(np.uint32).ravel()
    starts = np.flatnonzero(np.concatenate([[True], flat[1:] != flat[:-1]]))  # most pixels are like the one before
    lengths = np.diff(starts, append=flat.size)
    colours, which = np.unique(flat[starts], return_inverse=True)
    order = np.argsort(-np.bincount(which, weights=lengths), kind="stable")
    palette, found = _palette(colours[order].view(np.uint8).reshape(-1, 4))
    index = np.empty_like(found)
    index[order] = found
    rows = np.zeros((height, 1 + width), np.uint8)  # each begins with 0: no guesses
    rows[:, 1:] = np.repeat(index[which], lengths).reshape(height, width)
    deflate = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS, 9, zlib.Z_FILTERED)  # the smallest of all ways
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0),
        b"PLTE": palette[:, :3].tobytes(),
        b"tRNS": palette[:, 3].tobytes(),
        b"IDAT": deflate.compress(rows.tobytes()) + deflate.flush(),
        b"IEND": b"",
    }
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks.items()
    )


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
