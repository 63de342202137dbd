"""The PNG of a picture in few bytes."""

import struct
import sys
import zlib
from typing import Any

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.widgets.describe import outline
from nbgrad.widgets.notebook_output import static_bundle
from nbgrad.widgets.render import png
from nbgrad.widgets.render.png import smaller

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def guess(method: int, a: int, b: int, c: int) -> int:
    """The prediction of a byte by a filter of the PNG specification."""
    nearest = min((a, b, c), key=lambda one: abs(a + b - c - one))
    return (0, a, b, (a + b) // 2, nearest)[method]


def written(pixels: Pixels) -> bytes:
    """A PNG whose rows use all filters in turn."""
    height, width, _ = pixels.shape
    above, rows = [0] * (4 * width + 4), b""
    for y, row in enumerate(pixels.reshape(height, -1).tolist()):
        here, method = [0] * 4 + row, y % 5
        guesses = [guess(method, here[x - 4], above[x], above[x - 4]) for x in range(4, len(here))]
        rows += bytes([method, *((one - other) % 256 for one, other in zip(row, guesses, strict=True))])
        above = here
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0))
    data = zlib.compress(rows)
    parts = chunk(b"IDAT", data[:50]) + chunk(b"IDAT", data[50:])
    return b"\x89PNG\r\n\x1a\n" + head + parts + chunk(b"IEND", b"")


def read(png: bytes) -> Pixels:
    """The pixels of a PNG with a palette."""
    found, at = dict[bytes, bytes](), 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        name, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert png[at : at + 12 + length] == chunk(name, data)
        found[name] = data
        at += length + 12
    assert list(found) == [b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"]
    width, height, *kind = struct.unpack(">IIBBBBB", found[b"IHDR"])
    assert kind == [8, 3, 0, 0, 0]
    rows = np.frombuffer(zlib.decompress(found[b"IDAT"]), np.uint8).reshape(height, 1 + width)
    assert not rows[:, 0].any()
    opaque = np.frombuffer(found[b"PLTE"], np.uint8).reshape(-1, 3)
    palette = np.concatenate([opaque, np.frombuffer(found[b"tRNS"], np.uint8)[:, None]], axis=1)
    return palette[rows[:, 1:]]


def some(colours: int, height: int = 300, width: int = 90) -> Pixels:
    chance = np.random.default_rng(0)
    palette = chance.integers(0, 256, (colours, 4), dtype=np.uint8)
    return palette[np.minimum(chance.geometric(0.05, (height, width)), colours) - 1]


@pytest.mark.parametrize("shape", [(300, 90), (1, 1), (1, 7), (6, 1)])
def test_up_to_32_colours_stay_what_they_are(shape: tuple[int, int]) -> None:
    pixels = some(32, *shape)
    assert (read(smaller(written(pixels))) == pixels).all()


def test_of_more_colours_the_rare_ones_become_the_next_to_them() -> None:
    pixels = some(26)
    rare = pixels.copy()
    rare[:20, :20, 2] ^= 1
    again = read(smaller(written(rare)))
    assert (again[20:] == pixels[20:]).all()
    assert np.abs(again.astype(int) - rare).max() <= 1
    assert smaller(written(rare)) == smaller(written(rare))


def test_a_rare_colour_far_from_all_others_stays() -> None:
    """The corners of the card are transparent. They have few pixels, but a reader would see it if these became dark."""
    chance = np.random.default_rng(0)
    opaque = chance.integers(0, 256, (400, 4), dtype=np.uint8)
    opaque[:, 3] = 255
    pixels = opaque[chance.integers(0, 400, (300, 90))]
    pixels[0, :3] = pixels[0, -3:] = 0
    again = read(smaller(written(pixels)))
    assert (again[0, [0, 1, 2, -3, -2, -1]] == 0).all()


def test_what_it_cannot_read_and_what_needs_wasmtime_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = written(some(9))
    few = smaller(picture)
    assert smaller(few) is few
    png._compiled.cache_clear()
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    assert smaller(picture) is picture
    png._compiled.cache_clear()


def test_the_picture_of_a_small_network_is_small() -> None:
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    x, y = nbgrad.tensor(torch.randn(32, 2)), nbgrad.tensor(torch.randn(32, 1))
    with nbgrad.record(view="none") as graph:
        ((net(x) - y) ** 2).mean().backward()
    png = static_bundle(outline(graph))["image/png"]
    assert len(png) < 60_000
