"""After ``%unload_ext nbgrad`` every object of torch and IPython is the one from before the first load."""

import subprocess
import sys

import pytest

IMPORTED = "import nbgrad\nnbgrad.Tensor\nfrom tests import unloading\nunloading.main()"


def ran(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.rotated(4)
def test_unloading_leaves_nothing_behind() -> None:
    said = ran("from tests import unloading\nunloading.main()")
    assert said.count("differences []\nplaces []\n") == 2, said


@pytest.mark.rotated(4)
def test_what_an_earlier_import_did_stays() -> None:
    said = ran(IMPORTED)
    assert said.count("differences []\nplaces []\n") == 2, said
