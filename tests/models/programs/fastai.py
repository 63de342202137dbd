"""fastai."""

import torch
from fastai.basics import DataLoaders, Learner
from fastai.callback.progress import ProgressCallback
from fastai.callback.schedule import fit_one_cycle  # noqa: F401  # a method of Learner
from fastai.layers import ConvLayer, SimpleSelfAttention
from fastai.tabular.model import TabularModel
from fastai.text.models.awdlstm import AWD_LSTM
from fastai.vision.models.unet import DynamicUnet
from fastai.vision.models.xresnet import ResBlock, XResNet
from torch import nn

from tests.models.package import Package, Step

package = Package("fastai")


@package.step
def xresnet() -> Step:
    x, y = torch.randn(2, 3, 32, 32), torch.tensor([0, 2])
    net = XResNet(ResBlock, 1, [1, 1, 1, 1], n_out=3, sa=True)
    return net, lambda net: nn.functional.cross_entropy(net(x), y)


@package.step
def tabular() -> Step:
    kinds, numbers, y = torch.randint(0, 3, (6, 2)), torch.randn(6, 3), torch.tensor([0, 1] * 3)
    net = TabularModel([(3, 2), (3, 2)], 3, 2, [8], ps=[0.1], embed_p=0.1)
    return net, lambda net: nn.functional.cross_entropy(net(kinds, numbers), y)


@package.step
def language() -> Step:
    net = AWD_LSTM(20, 8, 12, 2, pad_token=1)
    x = torch.randint(2, 20, (3, 6))

    def loss(net: nn.Module) -> torch.Tensor:
        net.reset()
        return net(x).square().mean()

    return net, loss


@package.step
def unet() -> Step:
    encoder = nn.Sequential(*[ConvLayer(before, after, stride=2) for before, after in ((1, 4), (4, 8), (8, 8))])
    net = DynamicUnet(encoder, 2, (32, 32))
    x, y = torch.randn(1, 1, 32, 32), torch.randint(0, 2, (1, 32, 32))
    return net, lambda net: nn.functional.cross_entropy(net(x), y)


@package.step
def self_attention() -> Step:
    x = torch.randn(2, 4, 5, 5)
    return nn.Sequential(ConvLayer(4, 4), SimpleSelfAttention(4)), lambda net: net(x).square().mean()


@package.training
def learner() -> nn.Module:
    data = torch.utils.data.TensorDataset(torch.randn(16, 4), torch.randn(16, 1))
    loaders = DataLoaders.from_dsets(data, data, bs=4, num_workers=0, device=torch.device("cpu"))
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    learned = Learner(loaders, net, loss_func=nn.functional.mse_loss)
    learned.remove_cb(ProgressCallback)
    with learned.no_logging():
        learned.fit_one_cycle(2, 0.01)
    return net
