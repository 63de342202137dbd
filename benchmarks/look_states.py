"""The states in which a picture is seen: Fit, other zooms, each panel, other numbers, an answer."""

from collections.abc import Iterator
from typing import Any

from benchmarks.live_page import Kernel, Opened

ZOOMS = {"zoom 0.5": ("zoom-out", 2), "zoom 0.7": ("zoom-out", 1), "zoom 1.4": ("zoom-in", 1), "zoom 2": ("zoom-in", 2)}
ZOOMS["zoom 3.8"] = ("zoom-in", 4)
"""By the name of the state: the tool, and how often it is used after Fit. Each time is a factor of 1.4."""

DETAILS = {
    "details of the loss": ".nbg-node.nbg-root",
    "details of a parameter": ".nbg-node.nbg-parameter, .nbg-node.nbg-leaf",
    "details of a folded box": ".nbg-node.nbg-folded",
    "details of a reduction": ".nbg-mark",
    "details of an edge": ".nbg-edge",
}
"""By the name of the state: what is clicked."""

NUMBER = "0.70312"
"""A number as long as numbers usually are; one of a leaf is changed to it."""

# Each tool that opens or closes something, by its test id.
TOOLS = """() => [...document.querySelectorAll(".nbgrad > :not(.nbg-body) button")]
    .filter((one) => one.checkVisibility({ visibilityProperty: true }))
    .filter((one) => ["aria-pressed", "aria-expanded", "aria-haspopup"].some((name) => one.hasAttribute(name)))
    .map((one) => one.dataset.testid?.replace("nbgrad-", "")).filter(Boolean)"""

# Click the first element that is drawn, whether or not it is in sight. Return whether there is one.
CLICK = """selector => {
    const all = [...document.querySelectorAll(selector)];
    const one = all.find((one) => one.checkVisibility({ visibilityProperty: true }));
    one?.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, detail: 1 }));
    return !!one;
}"""

# Type into a field.
TYPE = """([selector, text]) => {
    const field = document.querySelector(selector);
    field.value = text;
    for (const event of ["input", "change"]) field.dispatchEvent(new Event(event, { bubbles: true }));
}"""

# Close everything that is open.
CLOSE = """() => {
    const view = document.querySelector(".nbgrad");
    for (const one of view.querySelectorAll("button[aria-pressed=true], button[aria-expanded=true]")) one.click();
    const stage = view.querySelector(".nbg-stage");
    stage.focus({ preventScroll: true });
    stage.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
}"""


def tool(name: str) -> str:
    """The selector of a tool or a field."""
    return f".nbgrad [data-testid=nbgrad-{name}]"


def click(page: Opened, selector: str) -> bool:
    """Click there. Return whether there is anything to click."""
    found: bool = page.tab.evaluate(CLICK, selector)
    page.settle()
    page.tab.wait_for_selector(".nbg-through", state="detached")  # the panel of a box that may be clicked once more
    return found


def use(page: Opened, name: str) -> None:
    """Click a tool, which must be there."""
    if not click(page, tool(name)):
        raise RuntimeError(f"The picture has no tool {name}.")


def close(page: Opened) -> None:
    """Close everything that is open."""
    page.tab.evaluate(CLOSE)
    page.settle()


def states(page: Opened) -> Iterator[str]:
    """Bring the page into one state after the other. Those that a picture does not have are left out.

    Yields:
        The name of the state in which the page is now.
    """
    yield "opening"
    for name in page.tab.evaluate(TOOLS):
        use(page, name)
        yield f"panel {name}"
        if name == "steps":
            yield from _steps(page)
        close(page)
    for name, selector in DETAILS.items():
        if click(page, selector):
            yield name
            close(page)
    yield from _searched(page)
    yield from _coloured(page)
    use(page, "fit")
    yield "fit"
    for name, (way, times) in ZOOMS.items():
        use(page, "fit")
        for _ in range(times):
            use(page, way)
        yield name
    use(page, "fit")
    yield from _supposed(page)


def _steps(page: Opened) -> Iterator[str]:
    for number in (2, 3):
        if click(page, tool("next")):
            yield f"step {number}"


def _searched(page: Opened) -> Iterator[str]:
    page.tab.evaluate(TYPE, [tool("search"), "a"])
    page.settle()
    yield "search"
    page.tab.evaluate(TYPE, [tool("search"), ""])
    close(page)


def _coloured(page: Opened) -> Iterator[str]:
    found = page.tab.evaluate("one => [...document.querySelector(one).options].map((of) => of.value)", tool("overlay"))
    for key in found[1:2]:
        page.tab.evaluate(TYPE, [tool("overlay"), key])
        page.settle()
        yield f"colour {key}"
    page.tab.evaluate(TYPE, [tool("overlay"), found[0] if found else ""])
    close(page)


def _supposed(page: Opened) -> Iterator[str]:
    """The number of a leaf is changed, where the graph can be run again."""
    if not click(page, DETAILS["details of a parameter"]):
        return
    if page.tab.locator(tool("what-if-number")).count():
        page.tab.evaluate(TYPE, [tool("what-if-number"), NUMBER])
        page.settle()
        yield "what if, with its panel"
        page.tab.evaluate(CLICK, ".nbg-panel .nbg-close")
        page.settle()
        yield "what if"


def asked(page: Opened, kernel: Kernel, variables: dict[str, Any]) -> Iterator[str]:
    """The same of a picture that asks for gradients: before an answer, and after right ones.

    Args:
        page: the page with it.
        kernel: its view.
        variables: those of the notebook, which know the right answers.
    """
    yield "asked"
    given = 0
    for question in kernel.questions:
        tensor: Any = variables.get(question["name"])
        gradient = tensor.grad if getattr(tensor, "is_leaf", False) else None  # torch keeps no other
        if gradient is None or not click(page, f'[data-node-id="{question["node"]}"]'):
            continue
        numbers = getattr(gradient, "data", gradient).flatten().tolist()
        page.tab.evaluate(TYPE, [tool("answer"), ", ".join(f"{one:.9g}" for one in numbers)])
        click(page, ".nbg-panel form button")
        given += 1
        yield f"answer {given}"
        close(page)
        if given == 2:
            break
    if given:
        yield "answered"
