"""A seed is torch's, and nothing is written down for devices that are not there."""

import traceback

import pytest
import torch

from tests.seeding import seed_only_what_is_there


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there, and torch writes the stack down for it")
def test_a_seed_makes_the_same_numbers_and_writes_no_stack_down(monkeypatch: pytest.MonkeyPatch) -> None:
    seed_only_what_is_there()
    monkeypatch.setattr(traceback, "format_stack", lambda: pytest.fail("the stack is written down"))
    torch.manual_seed(7)
    drawn = torch.rand(3)
    assert torch.equal(drawn, torch.rand(3, generator=torch.Generator().manual_seed(7)))
    torch.manual_seed(7)
    assert torch.equal(drawn, torch.rand(3))
