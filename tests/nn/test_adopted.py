"""Constructors that take torch's arguments."""

from inspect import signature
from typing import Any

import pytest

from nbgrad import nn
from nbgrad.nn.adopted import adopting


class Theirs:
    def __init__(self, size: int, scale: float = 2.0, *, inplace: bool = False) -> None: ...


class Ours:
    @adopting(Theirs)
    def __init__(self, *, newer: int = 3, **given: Any) -> None:
        self.given = {"newer": newer, **given}


@pytest.mark.parametrize(
    ("args", "named", "given"),
    [
        ((1,), {}, (1, 2.0, False, 3)),
        ((1, 4.0), {"inplace": True}, (1, 4.0, True, 3)),
        ((), {"scale": 5.0, "size": 1, "newer": 6}, (1, 5.0, False, 6)),
    ],
)
def test_arguments_come_by_name(args: Any, named: Any, given: Any) -> None:
    made = Ours(*args, **named)
    assert made.given == dict(zip(("size", "scale", "inplace", "newer"), given, strict=True))


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        ((), {}, "missing a required .*'size'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"size": 2}, "multiple values for argument 'size'"),
        ((1,), {"sise": 2}, "unexpected keyword argument 'sise'"),
    ],
)
def test_arguments_that_do_not_fit(args: Any, named: Any, message: str) -> None:
    with pytest.raises(TypeError, match=rf"^Ours\(\): .*{message}.* Its arguments are size, scale, inplace, newer$"):
        Ours(*args, **named)


def test_the_signature_is_torchs_and_what_older_versions_lack() -> None:
    assert str(signature(Ours)) == "(size: int, scale: float = 2.0, *, inplace: bool = False, newer: int = 3) -> None"
    assert [*signature(nn.Conv2d).parameters][:3] == ["in_channels", "out_channels", "kernel_size"]
