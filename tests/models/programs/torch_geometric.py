"""torch_geometric."""

from typing import Any

import torch
from torch import nn
from torch_geometric import nn as graphs
from torch_geometric.data import Batch, Data
from torch_geometric.nn.models import GAT, GCN, GIN, EdgeCNN, GraphSAGE
from torch_geometric.nn.models.schnet import SchNet

from tests.models.package import Package, Step

package = Package("torch-geometric")
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 5, 0], [1, 0, 2, 1, 4, 3, 0, 5]])


def classes(net: nn.Module, **more: Any) -> Step:
    """A model that says of which kind each of six nodes is."""
    x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    return net, lambda net: nn.functional.cross_entropy(net(x, EDGES, **more), y)


@package.step
def gcn() -> Step:
    return classes(GCN(4, 8, 2, 3, dropout=0.2))


@package.step
def gat() -> Step:
    return classes(GAT(4, 8, 2, 3, v2=True, heads=2))


@package.step
def sage() -> Step:
    return classes(GraphSAGE(4, 8, 2, 3, norm="batch_norm"))


@package.step
def gin() -> Step:
    return classes(GIN(4, 8, 2, 3, jk="cat"))


@package.step
def edge_cnn() -> Step:
    return classes(EdgeCNN(4, 8, 2, 3))


@package.step
def transformer() -> Step:
    return classes(graphs.TransformerConv(4, 3, heads=2, concat=False, edge_dim=2), edge_attr=torch.randn(8, 2))


@package.step
def chebyshev() -> Step:
    return classes(graphs.ChebConv(4, 3, K=3))


@package.step
def relations() -> Step:
    return classes(graphs.RGCNConv(4, 3, num_relations=2), edge_type=torch.tensor([0, 1] * 4))


class Pooled(nn.Module):
    """A network of whole graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = graphs.GraphConv(4, 8)
        self.pool = graphs.TopKPooling(8, 0.5)
        self.out = nn.Linear(16, 2)

    def forward(self, data: Any) -> torch.Tensor:
        x = self.conv(data.x, data.edge_index).relu()
        x, _, _, batch, _, _ = self.pool(x, data.edge_index, None, data.batch)
        return self.out(torch.cat([graphs.global_max_pool(x, batch), graphs.global_mean_pool(x, batch)], 1))


@package.step
def pooled() -> Step:
    data = Batch.from_data_list([Data(torch.randn(6, 4), EDGES), Data(torch.randn(6, 4), EDGES.flip(0))])
    y = torch.tensor([0, 1])
    return Pooled(), lambda net: nn.functional.cross_entropy(net(data), y)


@package.step
def schnet() -> Step:
    net = SchNet(hidden_channels=8, num_filters=8, num_interactions=2, num_gaussians=6, cutoff=3.0)
    net.interaction_graph = Pairs()
    z, place, batch = torch.tensor([1, 6, 8, 1]), torch.randn(4, 3), torch.tensor([0, 0, 0, 0])
    return net, lambda net: net(z, place, batch).square().sum()


class Pairs(nn.Module):
    """Every pair of atoms with its distance: what SchNet takes from a package in C++."""

    def forward(self, place: torch.Tensor, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pairs = torch.combinations(torch.arange(len(batch))).T
        pairs = torch.cat([pairs, pairs.flip(0)], 1)
        return pairs, (place[pairs[0]] - place[pairs[1]]).norm(dim=-1)


@package.step
def heterogeneous() -> Step:
    kinds = {
        ("user", "likes", "item"): graphs.SAGEConv((4, 3), 5),
        ("item", "by", "user"): graphs.GATConv((3, 4), 5, add_self_loops=False),
    }
    x = {"user": torch.randn(6, 4), "item": torch.randn(6, 3)}
    edges = dict.fromkeys(kinds, EDGES)
    return graphs.HeteroConv(kinds), lambda net: sum(one.square().mean() for one in net(x, edges).values())


@package.step
def recurrent() -> Step:
    net = graphs.GatedGraphConv(6, 2)
    return classes(nn.Sequential(net)[0])
