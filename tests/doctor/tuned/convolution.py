"""Faults of networks with convolutions: classification, segmentation, an autoencoder."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "stripes with a small conv net",
        "convolution",
        setup="""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

rng = np.random.default_rng(0)
torch.manual_seed(7)
images = rng.integers(0, 60, size=(8, 8, 1, 96)).astype(np.float32)
labels = np.arange(96) % 3
for i, k in enumerate(labels):
    if k == 0:
        images[rng.integers(8), :, 0, i] = 255
    elif k == 1:
        images[:, rng.integers(8), 0, i] = 255
    else:
        images[range(8), range(8), 0, i] = 255
images = torch.from_numpy(images).permute(3, 2, 0, 1) / 255.0
labels = torch.from_numpy(labels)
perm = torch.randperm(96)
images, labels = images[perm], labels[perm]


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 12, 3, padding=1)
        self.fc1 = nn.Linear(12 * 2 * 2, 24)
        self.bn = nn.BatchNorm1d(24)
        self.fc2 = nn.Linear(24, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        x = F.relu(self.bn(self.fc1(x)))
        x = self.fc2(x)
        return x


net = ConvNet()
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
batch = 32
""",
        forward="""
i = step % 3
inputs, targets = images[i * batch:(i + 1) * batch], labels[i * batch:(i + 1) * batch]
outputs = net(inputs)
loss = criterion(outputs, targets)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        faults=(
            Fault(
                "pixels of 0 to 255, no batch norm",
                "input scale",
                (
                    (".permute(3, 2, 0, 1) / 255.0", ".permute(3, 2, 0, 1)"),
                    ("F.relu(self.bn(self.fc1(x)))", "F.relu(self.fc1(x))"),
                    ("        self.bn = nn.BatchNorm1d(24)\n", ""),
                ),
                where=("input", "images", "conv1"),
                source="Humbatova 2020, Missing preprocessing step (pixels not scaled)",
            ),
            Fault(
                "batches of two",
                "normalization",
                (("batch = 32", "batch = 2"),),
                where=("bn", "batch"),
                source="Humbatova 2020, Suboptimal batch size; DeepFD, batch size",
            ),
            Fault(
                "rows and columns are mixed before the linear layer",
                "wrong dimension",
                (("x = torch.flatten(x, 1)", "x = x.transpose(0, 1).reshape(x.size(0), -1)"),),
                where=("reshape", "view", "transpose"),
                source="Karpathy's recipe, use backprop to chart dependencies; Humbatova 2020, Wrong tensor shape",
            ),
            Fault(
                "second convolution is forgotten in forward",
                "unused",
                (
                    (
                        "        x = F.max_pool2d(F.relu(self.conv2(x)), 2)\n",
                        "        x = F.max_pool2d(x, 2).repeat(1, 2, 1, 1)[:, :12]\n",
                    ),
                ),
                where=("conv2",),
                source="pytorch/tutorials 2522, why is this parameter not trained",
            ),
            Fault(
                "all weights are 0.05",
                "initialization",
                (
                    (
                        "net = ConvNet()\n",
                        "net = ConvNet()\nfor p in net.parameters():\n    nn.init.constant_(p, 0.05)\n",
                    ),
                ),
                where=("conv", "fc", "weight"),
                source="Humbatova 2020, Wrong weights initialisation",
            ),
            Fault(
                "weights of deviation 100",
                "initialization",
                (
                    (
                        "net = ConvNet()\n",
                        "net = ConvNet()\n"
                        "for m in (net.conv1, net.conv2, net.fc2):\n"
                        "    nn.init.normal_(m.weight, std=100)\n",
                    ),
                ),
                where=("conv1", "conv2", "fc2"),
                source="Islam 2019, Initialization bug; Karpathy's recipe, verify loss at init",
            ),
            Fault(
                "dead after a bias of -20",
                "dead units",
                (("net = ConvNet()\n", "net = ConvNet()\nnn.init.constant_(net.conv2.bias, -20.0)\n"),),
                where=("conv2", "relu"),
                source="DeepLocalize and AUTOTRAINER, dying relu",
            ),
            Fault(
                "dropout at the output",
                "dropout",
                (("        x = self.fc2(x)\n", "        x = F.dropout(self.fc2(x), p=0.5)\n"),),
                where=("dropout", "fc2"),
                source="Humbatova 2020, Redundant layer; Stack Overflow, dropout after the last layer",
            ),
            Fault(
                "predicted classes in the loss",
                "no gradient",
                (
                    (
                        "loss = criterion(outputs, targets)",
                        "_, predicted = torch.max(outputs, 1)\nloss = F.mse_loss(predicted.float(), targets.float())",
                    ),
                ),
                where=("max", "predicted"),
                source="Stack Overflow and PyTorch forum, loss of torch.max indices does not require grad",
            ),
            Fault(
                "trained with class numbers and mse",
                "target",
                (("loss = criterion(outputs, targets)", "loss = F.mse_loss(outputs.mean(1), targets.float())"),),
                where=("mse", "target"),
                source="Humbatova 2020, Wrong selection of loss function",
            ),
            Fault(
                "zero_grad after backward",
                "early call",
                (("optimizer.zero_grad()\nloss.backward()\n", "loss.backward()\nnet.zero_grad()\n"),),
                where=("zero_grad",),
                source="Humbatova 2020, Wrong position of API call",
            ),
            Fault(
                "batches of one",
                "normalization",
                (("batch = 32", "batch = 1"),),
                where=("bn", "batch"),
                source="PyTorch forum, expected more than 1 value per channel when training",
            ),
            Fault(
                "eight parts, each with the gradient of a whole batch",
                "accumulation",
                (
                    ("outputs = net(inputs)\nloss = criterion(outputs, targets)\n", ""),
                    (
                        "loss.backward()\n",
                        "for part, wanted in zip(inputs.chunk(8), targets.chunk(8)):\n"
                        "    loss = criterion(net(part), wanted)\n"
                        "    loss.backward()\n",
                    ),
                ),
                where=("loss", "backward"),
                source="Hugging Face and PyTorch forum, loss is not divided by the accumulation steps",
                hosts=("whole", "loop", "step", "function"),
            ),
        ),
    ),
    Program(
        "segmentation",
        "convolution",
        setup="""
import torch
from torch import nn

torch.manual_seed(8)
n, size = 24, 12
grid = torch.arange(size).float()
cx, cy = torch.rand(n, 1, 1) * 6 + 3, torch.rand(n, 1, 1) * 6 + 3
masks = (((grid[None, :, None] - cy) ** 2 + (grid[None, None, :] - cx) ** 2) < 9).float().unsqueeze(1)
pictures = masks * 0.8 + 0.4 * torch.randn(n, 1, size, size)

class DoubleConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))
    def forward(self, x):
        return self.net(x)

class TinyUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.downs = nn.ModuleList([DoubleConv(1, 6), DoubleConv(6, 12)])
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ConvTranspose2d(12, 6, 2, stride=2)
        self.merge = DoubleConv(12, 6)
        self.last = nn.Conv2d(6, 1, 1)
    def forward(self, x):
        skip = self.downs[0](x)
        low = self.downs[1](self.pool(skip))
        both = torch.cat([skip, self.up(low)], dim=1)
        return torch.sigmoid(self.last(self.merge(both)))

def dice_loss(p, t, smooth=1.0):
    inter = (p * t).sum(dim=(1, 2, 3))
    return (1 - (2 * inter + smooth) / (p.sum(dim=(1, 2, 3)) + t.sum(dim=(1, 2, 3)) + smooth)).mean()

unet = TinyUNet()
bce = nn.BCELoss()
optimizer = torch.optim.Adam(unet.parameters(), lr=1e-2)
""",
        forward="""
p = unet(pictures)
loss = bce(p, masks) + dice_loss(p, masks)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=30,
        faults=(
            Fault(
                "blocks in a plain list",
                "unregistered",
                (("nn.ModuleList([DoubleConv(1, 6), DoubleConv(6, 12)])", "[DoubleConv(1, 6), DoubleConv(6, 12)]"),),
                where=("downs", "list"),
                source="PyTorch forum, layers in a Python list are not registered; Zhang 2018, API misuse",
            ),
            Fault(
                "dice of the thresholded mask",
                "cut",
                (("loss = bce(p, masks) + dice_loss(p, masks)", "loss = dice_loss(p * 0 + (p > 0.5).float(), masks)"),),
                where=("gt", r"\bp\b", ">"),
                source="PyTorch forum, dice loss of a thresholded prediction has no gradient",
            ),
            Fault(
                "softmax over one channel",
                "output activation",
                (("torch.sigmoid(self.last(self.merge(both)))", "torch.softmax(self.last(self.merge(both)), dim=1)"),),
                where=("softmax", "last"),
                source="Humbatova 2020, Wrong type of activation function; DeepFD, activation",
            ),
            Fault(
                "masks of 0 and 255",
                "target",
                (
                    ("< 9).float().unsqueeze(1)", "< 9).float().unsqueeze(1) * 255"),
                    ("pictures = masks * 0.8", "pictures = masks / 255 * 0.8"),
                    (
                        "bce = nn.BCELoss()",
                        "bce = lambda p, t: -(t * (p + 1e-7).log() + (1 - t) * (1 - p + 1e-7).log()).mean()",
                    ),
                ),
                where=("masks", "target", r"\bt\b"),
                source="Humbatova 2020, Missing preprocessing step (pixels of masks not scaled)",
            ),
            Fault(
                "empty masks",
                "data",
                (("< 9).float()", "< -9).float()"),),
                where=("masks", "class", "target"),
                source="Humbatova 2020, Unbalanced training data",
            ),
            Fault(
                "own bce without epsilon",
                "nan",
                (
                    (
                        "loss = bce(p, masks) + dice_loss(p, masks)",
                        "p = (p * 1.5 - 0.25).clamp(0, 1)\n"
                        "loss = -(masks * p.log() + (1 - masks) * (1 - p).log()).mean()",
                    ),
                ),
                where=(r"\blog\b", r"\bp\b", "clamp"),
                source="Islam 2019, Logic bug: log of 0; Stack Overflow, NaN of a hand-written cross entropy",
                hosts=LOOPS,
            ),
            Fault(
                "skip is changed in place",
                "inplace",
                (
                    (
                        "        both = torch.cat([skip, self.up(low)], dim=1)\n",
                        "        skip += 0.1 * self.up(low)\n        both = torch.cat([skip, self.up(low)], dim=1)\n",
                    ),
                ),
                where=("skip", "relu", r"\+="),
                source="PyTorch forum, modified by an inplace operation: += on the result of a relu",
            ),
        ),
    ),
    Program(
        "denoising autoencoder",
        "autoencoder",
        setup="""
import torch
from torch import nn

torch.manual_seed(9)
basis = torch.randn(4, 20)
clean = torch.tanh(torch.randn(100, 4) @ basis * 0.7)

encoder = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.Linear(32, 6))
decoder = nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 20), nn.Tanh())
optimizer = torch.optim.AdamW(list(encoder.parameters()) + list(decoder.parameters()), lr=5e-3, weight_decay=1e-4)
loss_function = nn.MSELoss()
epoch_loss = 0.0
""",
        forward="""
noisy = clean + 0.1 * torch.randn_like(clean)
code = encoder(noisy)
reconstruction = decoder(code)
loss = loss_function(reconstruction, clean)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
epoch_loss += float(loss)
""",
        steps=50,
        faults=(
            Fault(
                "sigmoid for data from -1 to 1",
                "output activation",
                (("nn.Linear(32, 20), nn.Tanh())", "nn.Linear(32, 20), nn.Sigmoid())"),),
                where=("sigmoid", r"\b3\b", "decoder"),
                source="Humbatova 2020, Wrong type of activation function",
            ),
            Fault(
                "only the encoder is optimized",
                "no optimizer",
                (("list(encoder.parameters()) + list(decoder.parameters())", "encoder.parameters()"),),
                where=("decoder", r"0\.weight", r"2\.weight"),
                source="Islam 2019, Data flow bug; pytorch/tutorials 2522",
            ),
            Fault(
                "code is detached",
                "cut",
                (("reconstruction = decoder(code)", "reconstruction = decoder(code.detach())"),),
                where=("detach", "code", "encoder"),
                source="Zhang 2018, Confusion with computation model",
            ),
            Fault(
                "the reconstruction is its own target",
                "target",
                (
                    (
                        "loss = loss_function(reconstruction, clean)",
                        "loss = loss_function(reconstruction, decoder(encoder(reconstruction)))",
                    ),
                ),
                where=("target", "reconstruction"),
                source="Humbatova 2020, Wrong loss function calculation",
            ),
            Fault(
                "constant targets",
                "target",
                (
                    (
                        "loss = loss_function(reconstruction, clean)",
                        "loss = loss_function(reconstruction, torch.ones_like(clean))",
                    ),
                ),
                where=("target", "constant", "ones"),
                source="Humbatova 2020, Wrong labels for training data",
            ),
            Fault(
                "sum of the loss with its graph",
                "kept graphs",
                (("epoch_loss += float(loss)", "epoch_loss = epoch_loss + loss"),),
                where=("epoch_loss", "loss"),
                source="PyTorch FAQ, history across your training loop; pytorch 5569",
                hosts=LOOPS,
            ),
            Fault(
                "rate falls to 0 after three steps",
                "rate too small",
                (
                    (
                        "epoch_loss = 0.0\n",
                        "epoch_loss = 0.0\n"
                        "ramp = lambda k: max(0.0, 1 - k / 3)\n"
                        "scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, ramp)\n",
                    ),
                    ("epoch_loss += float(loss)\n", "epoch_loss += float(loss)\nscheduler.step()\n"),
                ),
                where=("rate", r"\blr\b", "scheduler", "optimizer"),
                source="PyTorch forum, a scheduler made for epochs is stepped per batch",
                hosts=LOOPS,
            ),
        ),
    ),
)
