"""``nbgrad doctor`` says what an installation has, and what to do about what it lacks."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError

import pytest

from nbgrad import __version__
from nbgrad.core import compilation
from nbgrad.run import doctor
from nbgrad.run.command import main
from nbgrad.run.doctor import Finding


def found(capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str, str]]:
    """The output of the command: for each thing whether it is well, and what was found."""
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    return {what: (well, text) for well, what, text in lines}


def test_a_sound_installation_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    findings = found(capsys)
    assert {well for well, _ in findings.values()} == {"ok"}
    assert findings["nbgrad"][1].startswith(__version__)
    assert findings["gradient"][1] == "of x^2 is 2x"
    assert "graphviz" in findings["drawing"][1]
    assert {
        "torch",
        "core",
        "devices",
        "products",
        "ipywidgets",
        "anywidget",
        "jupyterlab",
        "notebook",
        "dot",
    } <= findings.keys()


def test_the_command_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"nbgrad {__version__}\n"


@pytest.mark.parametrize(
    ("reason", "said"), [(None, "compiled"), ("of rain", "plain Python, which is slower: of rain")]
)
def test_it_says_why_the_core_is_plain(
    reason: str | None, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compilation, "why_not", lambda: reason)
    assert main(["doctor"]) == 0
    assert found(capsys)["core"] == ("ok", said)


def test_what_breaks_is_a_finding_and_the_rest_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> Iterator[Finding]:
        raise OSError("no such library")
        yield  # a generator, as the checks are

    monkeypatch.setattr(doctor, "_drawing", broken)
    assert main(["doctor"]) == 1
    findings = found(capsys)
    assert findings["broken"] == ("--", "OSError: no such library")
    assert findings["gradient"][0] == "ok"
    assert findings["dot"][0] == "ok"


def test_a_gradient_that_is_wrong_is_not_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from nbgrad.core.tensor.tensor import Tensor

    monkeypatch.setattr(Tensor, "tolist", lambda self: [0.0])
    assert main(["doctor"]) == 1
    assert found(capsys)["gradient"][0] == "--"


def test_a_notebook_that_is_not_there_is_no_illness(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = doctor.version

    def version(package: str) -> str:
        if package == "jupyterlab":
            raise PackageNotFoundError(package)
        return real(package)

    monkeypatch.setattr(doctor, "version", version)
    assert main(["doctor"]) == 0
    assert "pip install jupyterlab" in found(capsys)["jupyterlab"][1]


def test_without_a_command_it_says_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2
    assert "doctor" in capsys.readouterr().err


@pytest.mark.rotated(6)
def test_the_package_runs_as_the_command() -> None:
    result = subprocess.run([sys.executable, "-m", "nbgrad", "doctor"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "gradient" in result.stdout
