"""A graph keeps one such object for each op. So the garbage collector must not have to go through them."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import nbgrad
from nbgrad.core.compilation import compiled

CORE = Path(nbgrad.__file__).parent / "core"
HAS_GC = 1 << 14  # Py_TPFLAGS_HAVE_GC
DECLARED = [
    (".".join(file.relative_to(CORE.parent.parent).with_suffix("").parts), name)
    for file in sorted(CORE.rglob("*.pxd"))
    for name in re.findall(r"@cython\.no_gc\n(?:@cython\.\w+\n)*cdef class (\w+)", file.read_text(encoding="utf-8"))
]


def test_classes_are_declared() -> None:
    assert len(DECLARED) >= 6


@pytest.mark.skipif(not compiled(), reason="Python's own classes have the flag")
@pytest.mark.parametrize(("module", "name"), DECLARED, ids=[name for _, name in DECLARED])
def test_the_collector_does_not_see_a_class_that_says_so(module: str, name: str) -> None:
    assert not getattr(import_module(module), name).__flags__ & HAS_GC
