"""The data that travels to the page is small, and comes out as it went in."""

import json
import math
import random
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import nbgrad
from nbgrad.widgets import view
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.format import number
from nbgrad.widgets.description.schema import Description, Picture, Ranking
from nbgrad.widgets.folding.choose import Folding
from nbgrad.widgets.pipeline import lay_out, whole
from nbgrad.widgets.render.svg import svg
from nbgrad.widgets.render.wire_format import packed, sent
from tests.widgets import graphs
from tests.widgets.networks import NETWORKS
from tools.unpacking import unpacked

ROOM = view.STATIC.parent


def deep(steps: int) -> Description:
    """A network of 59 layers, which is 297 nodes, trained for so many steps."""
    torch.manual_seed(0)
    shapes = ((16, 16), (16,))
    layers = [[nbgrad.tensor(torch.randn(shape) / 4, requires_grad=True) for shape in shapes] for _ in range(59)]
    optimizer = nbgrad.optim.SGD([leaf for layer in layers for leaf in layer], lr=0.01)
    data = torch.randn(8, 16)
    with nbgrad.AutogradGraph(history=48) as graph:
        for _ in range(steps):
            optimizer.zero_grad()
            x = nbgrad.tensor(data)
            for w, b in layers:
                with nbgrad.scope("Layer"):
                    x = (x @ w + b).tanh()
            x.sum().backward()
            optimizer.step()
    return describe(graph)


@pytest.fixture
def all_sorts(hostile: Description) -> list[Picture]:
    """Pictures that together have everything that a picture can have. One of them has both directions."""
    described = [hostile, graphs.trained(), graphs.large(), graphs.broken(), graphs.unpaired(), graphs.stopped()]
    turned = whole(graphs.trained(3, 1))
    return [turned, *map(lay_out, described)]


@pytest.mark.rotated(6)
@pytest.mark.parametrize(("steps", "frames", "told"), [(258, 40, 297), (322, 41, 118)])
def test_a_long_history_of_three_hundred_nodes_travels_in_100_kilobytes(steps: int, frames: int, told: int) -> None:
    picture = lay_out(deep(steps), folding=Folding())
    description = picture["description"]
    assert len(description["nodes"]) == 297
    assert len(description["history"]["frames"]) == frames
    # Up to this number of norms every node has its norms; with more, only the leaves have them.
    assert len([node for node in description["nodes"] if node["norms"]]) == told
    data = packed(picture)
    assert_came(unpacked(data), picture)
    assert len(data) <= 100_000


NORMS = [
    0.0,
    5e-324,
    1e-300,
    9.9995e-6,
    1e-5,
    9.9995e-5,
    1e-4,
    0.25,
    0.99995,
    1.0,
    9.9995,
    9999.4,
    9999.5,
    1e4,
    12345.0,
]
NORMS += [1e100, 1.797e308, math.inf, 3.0]


def with_norms(picture: Picture) -> Picture:
    """The picture with other norms: of every size, in any order, with gaps."""
    chance = random.Random(0)
    texts = [number(norm) for norm in NORMS] + [number(10 ** chance.uniform(-9, 9)) for _ in range(3000)]
    norms = [*texts, "", *texts[::-1], "", "inf", "", *texts[::3]]
    first, *rest = picture["description"]["nodes"]
    return {**picture, "description": {**picture["description"], "nodes": [{**first, "norms": norms}, *rest]}}


def test_every_picture_comes_out_as_it_went_in(all_sorts: list[Picture]) -> None:
    for picture in all_sorts:
        assert_came(unpacked(packed(picture)), picture)
        assert svg(unpacked(packed(picture))) == svg(picture)
        assert_came(unpacked(packed(with_norms(picture))), with_norms(picture))


def assert_came(found: Picture, picture: Picture) -> None:
    """A picture came out as it went in, but for the fields that only Python reads; the texts are measured again."""
    assert sent(found) == sent(picture)
    assert found["layout"] == picture["layout"]


@pytest.mark.rotated(3)
@pytest.mark.skipif(
    shutil.which("node") is None or not (ROOM / "node_modules").is_dir(),
    reason="needs node, and `npm ci` in nbgrad/widgets",
)
def test_the_front_end_unpacks_the_same(all_sorts: list[Picture], tmp_path: Path) -> None:
    script = tmp_path / "unpack.mjs"
    esbuild = ROOM / "node_modules" / ".bin" / "esbuild"
    build = [esbuild, "src/unpack.ts", "--bundle", "--format=esm", f"--outfile={script}", "--log-level=warning"]
    subprocess.run(build, cwd=ROOM, check=True)
    program = f"""
        import {{ readFileSync }} from "node:fs";
        import {{ unpack }} from {json.dumps(str(script))};
        console.log(JSON.stringify(await unpack(readFileSync(0))));
    """
    for picture in (*map(with_norms, all_sorts), whole(NETWORKS["ResNet-18"]())):
        command = ["node", "--input-type=module", "-e", program]
        result = subprocess.run(command, input=packed(picture), capture_output=True, check=True)
        found = json.loads(result.stdout)
        for other in filter(None, (found["first"], found["large"])):
            del other["shared"]
        assert found == sent(picture)


BEFORE = [("MLP of 3", 8_518), ("ResNet-18", 64_198), ("GPT of 12 blocks", 107_082)]


@pytest.mark.rotated(3)
@pytest.mark.parametrize(("name", "before"), BEFORE)
def test_a_page_holds_less_than_before_it_had_two_pictures(name: str, before: int) -> None:
    """The numbers are bytes. ``before`` is the size without rows and columns, with the whole picture alone.

    The ranked list and the memory came later, and then the picture for a projector. Each takes at most a tenth more.
    """
    described = NETWORKS[name]()
    projected = whole(described)
    ranked = len(packed({**projected, "large": None}, 9))
    later = {"ranking": Ranking(columns=[], rows=[], parents={}, note=""), "memory": None, "living": []}
    plain = len(packed({**whole({**described, **later}), "large": None}, 9))  # type: ignore[typeddict-item]
    assert plain < before
    assert plain < ranked < plain * 11 / 10
    assert projected["large"] is not None
    assert ranked < len(packed(projected, 9)) < ranked * 11 / 10
