"""Facts about the result of an instruction, which the code around it tells."""

import sys

import pytest

from nbgrad.core.engine.place import Place

PLACES: list[Place] = []


def made() -> int:
    """Note the instruction that calls this."""
    frame = sys._getframe(1)
    PLACES.append(Place(frame.f_code, frame.f_lasti))
    return len(PLACES)


READ = {
    "in some rounds": ("for step in range(3):\n    x = made()\n    if step % 2: print(x)", True),
    "in an expression": ("for step in range(3):\n    x = made()\n    total = x if step else 0", True),
    "after the loop": ("for step in range(3):\n    x = made()\nprint(x)", True),
    "in the next round": ("x = 0\nfor step in range(3):\n    if step: print(x)\n    x = made()", True),
    "in each round": ("for step in range(3):\n    x = made()\n    print(x)", False),
    "never": ("for step in range(3):\n    x = made()", False),
    "bound again": ("for step in range(3):\n    x = made()\n    x = 2\n    if step: print(x)", False),
    "bound again in some rounds": ("for step in range(3):\n    x = made()\n    if step: x = 2\n    print(x)", True),
    "in no variable": ("for step in range(3):\n    made()\n    x = 2\n    if step: print(x)", False),
    "unless an error is raised": ("x = made()\nif x < 0: raise ValueError\nprint(x)", False),
    "returned": ("x = made()\nreturn x", False),
    "returned in some calls": ("x = made()\nif x > 0: return x\nreturn 0", True),
    "by an inner function": ("x = made()\nif x > 0: (lambda: x)()", True),
}
"""Programs, and whether the result of ``made()`` goes to a variable that they load in some rounds alone."""


@pytest.mark.parametrize("function", [True, False], ids=["function", "module"])
@pytest.mark.parametrize("name", READ)
def test_the_code_says_whether_a_result_may_be_read(name: str, function: bool) -> None:
    source, read = READ[name]
    inside = "\n".join([f"    {line}" for line in source.split("\n")])
    if not function and ("return" in source or "lambda" in source):
        pytest.skip("a module returns nothing, and functions anywhere may read its variables")
    PLACES.clear()
    exec(f"def run():\n{inside}\nrun()" if function else source, {"made": made, "print": str})
    assert {place.may_be_read() for place in PLACES} == {read}
