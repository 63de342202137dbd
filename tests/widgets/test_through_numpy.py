"""Half of a gradient that is lost because numbers went through numpy, as a finding of a picture."""

import numpy as np
import pytest
import torch

import nbgrad
from tests.widgets.graphs import texts


def found(graph: nbgrad.AutogradGraph) -> list[str]:
    return [one.text for one in graph.findings() if one.kind == "through numpy"]


def leaf() -> nbgrad.Tensor:
    return nbgrad.tensor([1.0, 2.0], requires_grad=True)


def test_a_tensor_that_numpy_computed_from_one_that_learns_is_found() -> None:
    w = leaf()
    with nbgrad.AutogradGraph() as graph:
        h = nbgrad.tensor(np.exp(w.detach().numpy()))
        loss = (h * w).sum()
        loss.backward()
    (text,) = texts(graph)
    assert text.startswith("h (2,) was made of the numbers of w, by numpy() at tests/widgets/test_through_numpy.py:")
    assert (
        ": the gradient of w lacks the part that comes through this constant. Compute with the tensor w itself" in text
    )


def test_it_is_found_through_variables_and_without_a_name_and_by_item() -> None:
    w = leaf()
    with nbgrad.AutogradGraph() as graph:
        numbers = w.detach().numpy()
        powers = np.exp(numbers)
        h = nbgrad.from_numpy(powers)
        (h * w).sum().backward()
    assert len(found(graph)) == 1
    with nbgrad.AutogradGraph() as graph:
        (nbgrad.tensor(np.exp(w.detach().numpy())) * w).sum().backward()
    assert len(found(graph)) == 1
    with nbgrad.AutogradGraph() as graph:
        y = (w * w).sum()
        size = nbgrad.tensor(y.item())
        (y / size).backward()
    (text,) = found(graph)
    assert "of the numbers of y, by item()" in text


def test_it_is_found_in_torchs_own_program() -> None:
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        h = torch.tensor(np.exp(w.detach().numpy()))
        (h * w).sum().backward()
    assert len(found(graph)) == 1


@pytest.mark.filterwarnings("ignore:nbgrad.tensor")
def test_data_labels_and_numbers_of_another_tensor_are_none() -> None:
    w, other = leaf(), leaf()
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.tensor(np.linspace(0, 1, 2, dtype=np.float32))
        label = nbgrad.tensor((w.detach().numpy() > 1.5).astype(np.float32))
        target = nbgrad.tensor(np.exp(other.detach().numpy()))
        loss = ((x * w - target - label) ** 2).sum()
        loss.backward()
        losses = [loss.item()]
        seen = nbgrad.tensor(losses)
    assert seen.shape == (1,)
    assert found(graph) == []


def test_the_tensor_itself_instead_is_none() -> None:
    w = leaf()
    with nbgrad.AutogradGraph() as graph:
        h = nbgrad.exp(w)
        (h * w).sum().backward()
    assert texts(graph) == []
