"""Picture -> a film of one training step: the forward op by op, then the backward step by step."""

from collections.abc import Iterator
from io import BytesIO
from typing import TypeVar

from nbgrad.core.stages import stage
from nbgrad.core.translation import translate
from nbgrad.widgets.description.schema import Node, Picture, Step
from nbgrad.widgets.optional_packages import loading, needs
from nbgrad.widgets.render.svg import Moment, rendered, svg

WIDTH = 1000
"""A film is at most this many pixels wide."""

_FORWARD, _BACKWARD = 24, 60
"""The most images of the forward, and of the backward: in a longer one an image shows several ops, or steps."""

Thing = TypeVar("Thing")

_SECONDS = {"forward": 0.5, "backward": 1.4, "end": 4.0}
"""How long an image stands."""


@stage("render")
def film(picture: Picture) -> bytes:
    """Draw a GIF that plays again and again.

    Raises:
        ModuleNotFoundError, PartError: ``resvg_py``, which renders its images, or Pillow, which writes them, is missing
            or fails.
    """
    install, instead = "pillow", "save it as .html, which plays the steps"
    with needs("pillow", "a film of a graph", install, instead, imported="PIL"), loading:
        from PIL import Image
    images, milliseconds = [], []
    for moment, seconds in moments(picture):
        drawn = rendered(svg(picture, moment), width=WIDTH)
        with needs("pillow", "a film of a graph", install, instead):
            image = Image.open(BytesIO(drawn)).convert("RGBA")
            images.append(Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB"))
        milliseconds.append(round(1000 * seconds))
    made = BytesIO()
    with needs("pillow", "a film of a graph", install, instead):
        images[0].save(made, "GIF", save_all=True, append_images=images[1:], duration=milliseconds, loop=0)
    return made.getvalue()


def moments(picture: Picture) -> Iterator[tuple[Moment, float]]:
    """The moment that each image shows, and for how many seconds; the last one has everything."""
    nodes, steps = picture["description"]["nodes"], picture["description"]["steps"]
    ops = [node for node in nodes if _runs(node)]
    computed = {node["id"] for node in nodes} - {node["id"] for node in ops}
    nothing = frozenset[str]()
    if ops:
        start = translate("The forward begins with the inputs.")
        yield Moment(start, "", frozenset(computed), nothing, nothing, nothing, forward=True), _SECONDS["forward"]
    done = 0
    for some in _parts(ops, _FORWARD):
        computed |= {node["id"] for node in some}
        done += len(some)
        said = translate(
            "Forward, op {done:,} of {count:,}: {names}",
            done=done,
            count=len(ops),
            names=", ".join(node["label"][0] for node in some),
        )
        current = frozenset(node["id"] for node in some)
        yield Moment(said, "", frozenset(computed), nothing, nothing, current, forward=True), _SECONDS["forward"]
    everything = frozenset(computed)
    reached = {node["id"] for node in nodes if node["root"] and node["rule"] is not None}
    source = {edge["id"]: edge["source"] for edge in picture["description"]["edges"]}
    back: set[str] = set()
    done = 0
    for taken in _parts(steps, _BACKWARD):
        done += len(taken)
        given = [one for step in taken for one in step["given"]]
        back |= {one["edge"] for one in given}
        reached |= {step["node"] for step in taken} | {source[one["edge"]] for one in given if one["edge"] in source}
        current = frozenset(step["node"] for step in taken)
        said, more = _told(taken, done, len(steps)), "; ".join(one["text"] for one in given)
        yield Moment(said, more, everything, frozenset(reached), frozenset(back), current), _SECONDS["backward"]
    whole = frozenset(node["id"] for node in nodes)
    said = translate("All gradients have arrived.") if steps else translate("No backward ran.")
    yield Moment(said, "", whole, whole, frozenset(source), nothing), _SECONDS["end"]


def _runs(node: Node) -> bool:
    """Whether an op runs in ``node``."""
    return node["kind"] in ("op", "folded", "failed")


def _told(steps: list[Step], done: int, all_of_them: int) -> str:
    first = translate("Backward, step {done:,} of {all_of_them:,}", done=done, all_of_them=all_of_them)
    if len(steps) == 1:
        return f"{first}: {steps[0]['title']}"
    return f"{first}: {', '.join(step['title'] for step in steps)}"


def _parts(items: list[Thing], most: int) -> Iterator[list[Thing]]:
    """The items in at most so many parts of nearly the same length."""
    many = min(most, len(items))
    for at in range(many):
        yield items[at * len(items) // many : (at + 1) * len(items) // many]
