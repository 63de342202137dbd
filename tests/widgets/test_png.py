"""The PNG of a picture in few bytes."""

import sys
from io import BytesIO
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import nbgrad
from nbgrad import nn
from nbgrad.widgets.describe import outline
from nbgrad.widgets.notebook_output import static_bundle
from nbgrad.widgets.render.png import smaller

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def written(pixels: Pixels) -> bytes:
    made = BytesIO()
    Image.fromarray(pixels).save(made, "PNG")
    return made.getvalue()


def read(png: bytes) -> Pixels:
    """The pixels of a PNG with a palette."""
    picture = Image.open(BytesIO(png))
    assert picture.mode == "P"
    return np.asarray(picture.convert("RGBA"))


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


def test_what_it_cannot_read_and_what_needs_pillow_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = written(some(9))
    few = smaller(picture)
    assert smaller(few) is few
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert smaller(picture) is picture


def test_the_picture_of_a_small_network_is_small() -> None:
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    x, y = nbgrad.tensor(torch.randn(32, 2)), nbgrad.tensor(torch.randn(32, 1))
    with nbgrad.record(view="none") as graph:
        ((net(x) - y) ** 2).mean().backward()
    png = static_bundle(outline(graph))["image/png"]
    assert len(png) < 60_000
