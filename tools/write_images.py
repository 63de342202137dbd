"""Write the pictures of the documentation, docs/images, with the front end as it is: run it after a change of that.

Without a name it writes all of them, else those that are named.

Nothing compares them: letters differ a little from one machine to the next.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from playwright.sync_api import Browser, Locator, Page, sync_playwright

import nbgrad
from nbgrad import nn
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.nn import functional
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.layout.positions import lay_out
from nbgrad.widgets.render.html_page import fragment, runtime
from tools.check_tools import chromium

IMAGES = Path(__file__).parents[1] / "docs" / "images"


class Block(nn.Module):
    """Two layers and a way around them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wide, self.back = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        """What comes through the layers is added to what went in."""
        through: nbgrad.Tensor = self.back(self.wide(x).tanh())
        return x + through


def first() -> Description:
    """The first graph of the tour."""
    a = nbgrad.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    b = nbgrad.tensor([[2.0, 0.5, 1.0], [1.0, 3.0, 2.0]])
    c = nbgrad.tensor([0.1, 0.2, 0.3], requires_grad=True)
    with AutogradGraph("a * b + c") as graph:
        y = a * b + c
        loss = y.sum()
        loss.backward()
    return describe(graph)


class TorchBlock(torch.nn.Module):
    """The block of a residual network, as people write it for torch."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(channels)
        self.conv2 = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two convolutions and a way around them."""
        through = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(through)) + x)


class TorchNet(torch.nn.Module):
    """A small residual network of torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = torch.nn.Sequential(*[TorchBlock(8) for _ in range(3)])
        self.head = torch.nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The scores of ten classes."""
        scores: torch.Tensor = self.head(self.blocks(self.stem(x)).mean((2, 3)))
        return scores


def own_model() -> Description:
    """A step of a network in plain torch, recorded as it is."""
    torch.manual_seed(0)
    net = TorchNet()
    images, labels = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
    with AutogradGraph("a residual network of torch") as graph:
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
    return describe(graph)


def trained(steps: int, blocks: int, *, adam: bool = False) -> Description:
    """A residual network that learned for so many steps, the second half of them with a tenth of the rate."""
    nbgrad.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), *[Block(8) for _ in range(blocks)], nn.Linear(8, 3))
    points = torch.randn(256, 4)
    targets = (points @ torch.randn(4, 3)).argmax(1)
    optimizer = nbgrad.optim.Adam(net.parameters(), lr=0.01) if adam else nbgrad.optim.SGD(net.parameters(), lr=0.3)
    schedule = nbgrad.optim.lr_scheduler.StepLR(optimizer, max(1, steps // 2))
    with AutogradGraph("a residual network") as graph:
        for _ in range(steps):
            optimizer.zero_grad()
            batch = torch.randint(0, 256, (16,))
            x, target = nbgrad.tensor(points[batch]), nbgrad.tensor(targets[batch])
            loss = functional.cross_entropy(net(x), target)
            loss.backward()
            optimizer.step()
            schedule.step()
    return describe(graph)


def found(tab: Page, name: str) -> Locator:
    """What has this name for tests."""
    return tab.get_by_test_id(f"nbgrad-{name}")


def stepping(tab: Page) -> Locator:
    """The step in which the first of two paths comes to where they meet."""
    found(tab, "steps").click()
    while "path 1 of 2 that meet here" not in found(tab, "details").inner_text():
        found(tab, "next").click()
    return found(tab, "view")


def compared(tab: Page) -> Locator:
    """The first backward, compared with the sixth."""
    found(tab, "history").click()
    found(tab, "frame").fill("0")
    found(tab, "compare").select_option("5")
    return found(tab, "view")


def updates(tab: Page) -> Locator:
    """The history alone, with its other curves."""
    found(tab, "history").click()
    found(tab, "chart").select_option("update / weight")
    return found(tab, "timeline")


WRITTEN: dict[str, tuple[Callable[[], Description], Callable[[Page], Locator]]] = {
    "first_graph": (first, lambda tab: found(tab, "view")),
    "own_model": (own_model, lambda tab: found(tab, "view")),
    "steps": (lambda: trained(1, 1), stepping),
    "history": (lambda: trained(12, 3), compared),
    "updates": (lambda: trained(400, 1, adam=True), updates),
}


@contextmanager
def shown(browser: Browser, description: Description) -> Iterator[Page]:
    """A graph as a cell of a notebook shows it, on a screen of 1440 x 900."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "picture.html"
        picture = fragment(lay_out(description))
        file.write_text(f"<!DOCTYPE html><meta charset='utf-8'><body>{picture}{runtime()}", encoding="utf-8")
        tab = browser.new_page(viewport={"width": 1092, "height": 900}, screen={"width": 1440, "height": 900})
        tab.goto(file.as_uri())
        tab.locator(".nbg-stage > g[transform]").wait_for(state="attached")
        yield tab
        tab.close()


def main() -> None:
    """Write every picture."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        for name, (make, look) in WRITTEN.items():
            if len(sys.argv) > 1 and name not in sys.argv[1:]:
                continue
            with shown(browser, make()) as tab:
                part = look(tab)
                tab.mouse.move(0, 0)
                part.screenshot(path=IMAGES / f"{name}.png", animations="disabled")
            print(f"wrote docs/images/{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
