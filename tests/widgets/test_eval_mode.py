"""Models that learn in eval mode, as findings of a picture."""

import nbgrad
from nbgrad import nn, optim
from tests.widgets.graphs import texts


def model() -> nn.Sequential:
    block = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1))
    return nn.Sequential(block, nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))


def trained(net: nn.Sequential) -> nbgrad.AutogradGraph:
    optimizer = optim.SGD([one for one in net.parameters() if one.requires_grad], lr=1e-3)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(2):
            optimizer.zero_grad()
            net(nbgrad.randn(16, 4)).square().mean().backward()
            optimizer.step()
    return graph


def test_a_model_that_learns_in_eval_mode_is_reported_once() -> None:
    net = model().eval()
    (text,) = texts(trained(net))
    assert text.startswith("Sequential learns in eval mode: this normalization uses its running statistics")
    assert text.endswith("Call train() on the Sequential before training")


def test_one_that_is_evaluated_afterwards_or_tuned_in_part_is_none() -> None:
    net = model()
    graph = trained(net)
    net.eval()
    assert texts(graph) == []
    net = model()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.eval()
    assert texts(trained(net)) == []
    net = model().eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.requires_grad_(False)
    assert texts(trained(net)) == []


def test_a_saliency_map_of_a_model_is_none() -> None:
    net = model().eval()
    with nbgrad.AutogradGraph() as graph:
        net(nbgrad.randn(16, 4, requires_grad=True)).sum().backward()
    assert texts(graph) == []
