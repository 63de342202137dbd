"""The film of a training step: what each image shows, and that its file is a GIF that others read."""

import base64
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageSequence

import nbgrad
from nbgrad import nn
from nbgrad.widgets.describe import describe
from nbgrad.widgets.pipeline import lay_out
from nbgrad.widgets.render.film import film, moments
from nbgrad.widgets.render.svg import rendered, svg
from tests.core.test_graph_comparison import run


def decoded(data: bytes) -> list[tuple[Any, float]]:
    """The images of a GIF: RGB pixels, and how many seconds each image is shown."""
    with Image.open(BytesIO(data)) as read:
        images = ImageSequence.Iterator(read)
        return [(np.asarray(image.convert("RGB")), image.info["duration"] / 1000) for image in images]


@pytest.mark.rotated(3)
def test_its_images_are_the_drawings_and_stand_as_long_as_they_should() -> None:
    picture = lay_out(describe(run("film", nn.Linear(3, 4), nn.Tanh())))
    made = film(picture)
    assert b"NETSCAPE2.0\x03\x01\x00\x00" in made, "it begins again and again"
    found, wanted = decoded(made), list(moments(picture))
    assert [seconds for _, seconds in found] == [seconds for _, seconds in wanted]
    for (shown, _), (moment, _) in zip(found, wanted, strict=True):
        with Image.open(BytesIO(rendered(svg(picture, moment)))) as drawn:
            plain = Image.new("RGB", drawn.size, "white")
            plain.paste(drawn, mask=drawn.getchannel("A"))
        wrong = np.abs(shown.astype(int) - np.asarray(plain)).max(2)
        assert shown.shape == np.asarray(plain).shape
        assert (wrong > 0).mean() < 0.05, "large areas keep their colours, and nothing is dithered"
        assert (wrong > 64).mean() < 0.005


def test_it_goes_forward_and_then_backward() -> None:
    graph = run("film", nn.Linear(3, 4), nn.Tanh())
    description = describe(graph)
    picture = lay_out(description)
    shown = [moment for moment, _ in moments(picture)]
    said = [moment.said for moment in shown]
    assert said[:3] == [
        "The forward begins with the inputs.", "Forward, op 1 of 4: linear", "Forward, op 2 of 4: tanh",
    ]  # fmt: skip
    assert said[5].startswith("Backward, step 1 of 4: the rule of mean")
    assert said[-1] == "All gradients have arrived."
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
    assert len(decoded((tmp_path / "forward.gif").read_bytes())) == 3
    with nbgrad.AutogradGraph("empty") as graph:
        pass
    graph.save(tmp_path / "empty.gif")
    assert len(decoded((tmp_path / "empty.gif").read_bytes())) == 1
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
    own = decoded(data)
    tab = browser.new_page()
    (tmp_path / "page.html").write_text("<title>a page from disk</title>")
    tab.goto((tmp_path / "page.html").as_uri())  # only a page in a secure context has ImageDecoder
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
