"""The film of a training step: what each image shows, and that its file is a GIF that others read."""

import base64
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nbgrad
from nbgrad import nn
from nbgrad.widgets.describe import describe
from nbgrad.widgets.layout.positions import lay_out
from nbgrad.widgets.render.film import moments
from nbgrad.widgets.render.gif import gif
from nbgrad.widgets.render.svg import svg
from tests.core.test_graph_comparison import run


def decoded(data: bytes) -> Iterator[tuple[Any, float]]:
    """The images of a GIF, by the specification alone: pixels of three bytes, and how long each stands."""
    assert data[:6] == b"GIF89a"
    width, height = struct.unpack("<HH", data[6:10])
    at, canvas, seconds = 13, np.zeros((height, width, 3), np.uint8), 0.0

    def block() -> bytes:
        nonlocal at
        parts = []
        while size := data[at]:
            parts.append(data[at + 1 : at + 1 + size])
            at += size + 1
        at += 1
        return b"".join(parts)

    while data[at] != 0x3B:
        if data[at] == 0x21:
            kind, at = data[at + 1], at + 2
            said = block()
            seconds = struct.unpack("<H", said[1:3])[0] / 100 if kind == 0xF9 else seconds
            continue
        assert data[at] == 0x2C
        left, top, wide, high, packed = struct.unpack("<HHHHB", data[at + 1 : at + 10])
        assert packed == 0x87, "256 colours of its own"
        palette = np.frombuffer(data[at + 10 : at + 778], np.uint8).reshape(256, 3)
        assert data[at + 778] == 8
        at += 779
        index = np.frombuffer(unpacked(block()), np.uint8)
        canvas[top : top + high, left : left + wide] = palette[index].reshape(high, wide, 3)
        yield canvas.copy(), seconds
    assert at == len(data) - 1


def unpacked(data: bytes) -> bytes:
    """Undo the LZW of a GIF."""
    bits, have, width, table, found = 0, 0, 9, list[bytes](), list[bytes]()
    before: bytes | None = None
    for byte in data:
        bits |= byte << have
        have += 8
        while have >= width:
            code, bits, have = bits & ((1 << width) - 1), bits >> width, have - width
            if code == 256:
                table, width, before = [bytes([one]) for one in range(256)] + [b"", b""], 9, None
            elif code == 257:
                return b"".join(found)
            else:
                now = table[code] if code < len(table) else before + before[:1]  # type: ignore[operator, index]
                found.append(now)
                if before is not None and len(table) < 4096:
                    table.append(before + now[:1])
                before = now
                width = min(12, len(table).bit_length())
    raise AssertionError("it has no end")


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (7, 5), (64, 64), (130, 90)])
@pytest.mark.parametrize("colours", [1, 2, 256])
def test_every_pixel_comes_back(size: tuple[int, int], colours: int) -> None:
    draw = np.random.default_rng(0)
    palette = draw.integers(0, 256, (colours, 4), np.uint8)
    palette[:, 3] = 255
    images = [palette[draw.integers(0, colours, size)] for _ in range(3)]
    images.insert(1, images[0])
    found = list(decoded(gif((image, 0.5 + at) for at, image in enumerate(images))))
    assert [seconds for _, seconds in found] == [0.5, 1.5, 2.5, 3.5]
    for (shown, _), image in zip(found, images, strict=True):
        assert (shown == image[..., :3]).all()


def test_transparent_pixels_are_white_and_what_stays_is_not_sent_again() -> None:
    first = np.zeros((40, 40, 4), np.uint8)
    second = first.copy()
    second[10:12, 20:25] = (255, 0, 0, 255)
    one, two = gif([(first, 1.0)]), gif([(first, 1.0), (second, 1.0)])
    (_, _), (shown, _) = decoded(two)
    assert (shown[0, 0] == 255).all()
    assert (shown[10, 20] == (255, 0, 0)).all()
    assert struct.unpack("<HHHH", two[two.rindex(b"\x2c\x14\0\x0a\0") + 1 :][:8]) == (20, 10, 5, 2)
    assert len(two) - len(one) < 900


def test_it_goes_forward_and_then_backward() -> None:
    graph = run("film", nn.Linear(3, 4), nn.Tanh())
    description = describe(graph)
    picture = lay_out(description)
    shown = [moment for moment, _ in moments(picture)]
    said = [moment.said for moment in shown]
    assert said[:3] == [
        "The forward begins with what is given.", "Forward, op 1 of 4: linear", "Forward, op 2 of 4: tanh",
    ]  # fmt: skip
    assert said[5].startswith("Backward, step 1 of 4: the rule of mean")
    assert said[-1] == "The step is done: every gradient has arrived."
    assert all(a.computed <= b.computed for a, b in pairwise(shown))
    assert all(a.reached <= b.reached for a, b in pairwise(shown))
    assert not shown[4].reached, "the forward knows no gradient"
    assert shown[-1].computed == {node["id"] for node in picture["description"]["nodes"]}
    first = shown[5]
    assert first.more.startswith("to ")
    drawn = svg(picture, first)
    assert "<tspan" in drawn
    assert ">? " in drawn, "gradients that are still to come"
    assert "opacity=" in drawn
    assert svg(picture) == svg(lay_out(description)), "a picture is drawn as before"


def test_a_long_walk_has_a_bounded_number_of_images() -> None:
    w = nbgrad.tensor([1.0], requires_grad=True)
    with nbgrad.AutogradGraph("long") as graph:
        y = w
        for _ in range(100):
            y = y.sin()
        y.sum().backward()
    found = [moment for moment, _ in moments(lay_out(describe(graph), limit=400))]
    assert len(found) <= 24 + 60 + 2
    assert found[-2].said.startswith("Backward, step ")


def test_a_graph_without_a_backward_and_one_without_anything_have_a_film(tmp_path: Path) -> None:
    w = nbgrad.tensor([1.0], requires_grad=True)
    with nbgrad.AutogradGraph("forward") as graph:
        y = w * 2
    graph.save(tmp_path / "forward.gif")
    assert len(list(decoded((tmp_path / "forward.gif").read_bytes()))) == 3
    with nbgrad.AutogradGraph("empty") as graph:
        pass
    graph.save(tmp_path / "empty.gif")
    assert len(list(decoded((tmp_path / "empty.gif").read_bytes()))) == 1
    del y


@pytest.mark.parametrize("suffix", [".mp4", ".webm"])
def test_a_video_is_refused_with_what_to_write_instead(tmp_path: Path, suffix: str) -> None:
    graph = run("film", nn.Linear(3, 4))
    with pytest.raises(ValueError, match=r"A film of the step is a \.gif, or a \.html"):
        graph.save(tmp_path / f"step{suffix}")


@pytest.mark.browser
def test_a_browser_reads_every_image(browser: Any, tmp_path: Path) -> None:
    graph = run("film", nn.Linear(3, 4), nn.Tanh())
    graph.save(tmp_path / "step.gif")
    data = (tmp_path / "step.gif").read_bytes()
    graph.save(tmp_path / "again.gif")
    assert (tmp_path / "again.gif").read_bytes() == data, "the same graph gives the same bytes"
    own = list(decoded(data))
    tab = browser.new_page()
    (tmp_path / "page.html").write_text("<title>a page from disk</title>")
    tab.goto((tmp_path / "page.html").as_uri())  # what decodes is for pages that are trusted
    many, pixel = tab.evaluate(
        """async (data) => {
            const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
            const decoder = new ImageDecoder({ data: bytes, type: "image/gif" });
            await Promise.all([decoder.tracks.ready, decoder.completed]);
            const { frameCount } = decoder.tracks.selectedTrack;
            const { image } = await decoder.decode({ frameIndex: frameCount - 1 });
            const canvas = new OffscreenCanvas(image.displayWidth, image.displayHeight);
            const pen = canvas.getContext("2d");
            pen.drawImage(image, 0, 0);
            return [frameCount, [...pen.getImageData(0, 0, image.displayWidth, image.displayHeight).data]];
        }""",
        base64.b64encode(data).decode(),
    )
    tab.close()
    assert many == len(own) == 10
    shown = np.array(pixel, np.uint8).reshape(*own[-1][0].shape[:2], 4)[..., :3]
    assert (shown == own[-1][0]).all()
