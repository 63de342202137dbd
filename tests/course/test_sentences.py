"""Tasks, hints and results of checks as a notebook shows them."""

import re
from html import unescape

import pytest
from IPython.core.interactiveshell import InteractiveShell

from nbgrad import lab
from nbgrad.lab.exercise import every
from nbgrad.options import configured


def parts(html: str) -> tuple[str, list[str]]:
    """The text of some HTML, and those parts of it that are code."""
    code = re.findall("<code>(.*?)</code>", html)
    return unescape(re.sub("<[^>]*>", "", html)), [unescape(one) for one in code]


@pytest.mark.parametrize("number", every())
def test_a_notebook_shows_all_of_a_task_and_a_hint(number: str) -> None:
    for sentences in (lab.task(number), lab.hint(number, 1)):
        assert isinstance(sentences, str)
        text, _ = parts(sentences._repr_html_())
        assert text == sentences.replace("`", "")


def test_code_is_shown_as_code(shell: InteractiveShell) -> None:
    data, _ = shell.display_formatter.format(lab.task("2.2"))
    _, code = parts(data["text/html"])
    assert {"mul_rule(g, a, b)", "tanh_rule(g, y)", "y = tanh(x)"} <= {*code}
    assert "20pt" not in data["text/html"]


def test_on_a_projector_a_check_has_a_colour_and_large_letters(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = lab.check("2.1", {"exp": 1})
    right = lab.check("1.1", {"a": 6.0, "b": -4.0, "c": -2.0, "f": 4.0})
    assert not wrong
    assert right
    assert "text/html" not in shell.display_formatter.format(wrong)[0], "the saved lessons have only the text"
    monkeypatch.setitem(configured, "projector", True)
    looks = [shell.display_formatter.format(one)[0]["text/html"] for one in (right, wrong)]
    for look, outcome in zip(looks, (right, wrong), strict=True):
        assert "font-size:20pt" in look
        assert parts(look)[0] == repr(outcome)
    assert len({re.search("solid (#\\w+)", look)[1] for look in looks}) == 2
    assert "20pt" in lab.task("2.2")._repr_html_()
