"""Faults of networks for pictures: augmented glyphs, masks from a small U-Net, triplets, two views."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "glyphs with augmentation",
        "classifier",
        setup="""
import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

random.seed(1); np.random.seed(1); torch.manual_seed(1)

def draw(kind):
    img = np.random.randint(0, 60, (12, 12)).astype(np.uint8)
    at = np.random.randint(2, 10)
    if kind == 0: img[at - 1:at + 1, :] = 230
    elif kind == 1: img[:, at - 1:at + 1] = 230
    elif kind == 2: img[np.arange(12), np.arange(12)] = 255
    else: img[at - 2:at + 2, at - 2:at + 2] = 200
    return img

classes = ["bar", "pole", "slash", "block"]
images = [draw(i % 4) for i in range(480)]
labels = [i % 4 for i in range(480)]

class Augment:
    def __init__(self, flip=0.5, noise=0.05):
        self.flip, self.noise = flip, noise
    def __call__(self, img):
        if random.random() < self.flip:
            img = img.flip(-2)
        return img + self.noise * torch.randn_like(img)

class Glyphs(Dataset):
    def __init__(self, images, labels, transform):
        self.items = list(zip(images, labels))
        self.transform = transform
    def __len__(self):
        return len(self.items)
    def __getitem__(self, i):
        img, label = self.items[i]
        img = torch.from_numpy(img).float().unsqueeze(0) / 255.0
        return self.transform(img), label

class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.dropout = nn.Dropout(0.1)
        self.fc1 = nn.Linear(16 * 3 * 3, 32)
        self.fc2 = nn.Linear(32, 4)
    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = x.view(x.size(0), -1)
        x = self.dropout(F.relu(self.fc1(x)))
        return self.fc2(x)

loader = DataLoader(Glyphs(images, labels, Augment()), batch_size=32, shuffle=True)
batches = iter([batch for _ in range(5) for batch in loader])
model = ConvNet()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
running_loss, correct = 0.0, 0
""",
        forward="""
inputs, targets = next(batches)
outputs = model(inputs)
loss = criterion(outputs, targets)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
running_loss += loss.item()
correct += (outputs.argmax(1) == targets).sum().item()
""",
        steps=75,
        faults=(
            Fault(
                "grey values up to 255",
                "input scale",
                (("unsqueeze(0) / 255.0", "unsqueeze(0)"),),
                where=("conv1", "input", "img", "images"),
                source="DeepFD, data not normalized; Humbatova 2020, Missing preprocessing: pixels in 0..255",
            ),
            Fault(
                "shuffled pictures are zipped with their labels",
                "data",
                (("        self.items = list(", "        random.shuffle(images)\n        self.items = list("),),
                where=("target", "label", "images"),
                source="Stack Overflow, X is shuffled and y is not; Humbatova 2020, Wrong labels for training data",
                hosts=LOOPS,
            ),
            Fault(
                "labels count from one",
                "target",
                (("labels = [i % 4 for", "labels = [i % 4 + 1 for"),),
                where=("target", "label", "criterion"),
                source="Stack Overflow, IndexError: Target 4 is out of bounds",
            ),
            Fault(
                "a second softmax",
                "loss input",
                (("return self.fc2(x)", "return F.softmax(self.fc2(x), dim=1)"),),
                where=("softmax", "cross_entropy", "criterion"),
                source="Islam 2019; Humbatova 2020, redundant softmax before CrossEntropyLoss",
            ),
            Fault(
                "channels first, batch last, then flattened",
                "wrong dimension",
                (("x = x.view(x.size(0), -1)", "x = x.permute(1, 2, 3, 0).reshape(x.size(0), -1)"),),
                where=("permute", "reshape", "view"),
                source="PyTorch forum, permute and reshape mix the samples of a batch; NeuraLint",
            ),
            Fault(
                "a head of one unit",
                "loss input",
                (
                    ("self.fc2 = nn.Linear(32, 4)", "self.fc2 = nn.Linear(32, 1)"),
                    (
                        "loss = criterion(outputs, targets)",
                        "loss = criterion(outputs, (targets > 1).float().unsqueeze(1))",
                    ),
                ),
                where=("cross_entropy", "criterion", "fc2", "target"),
                source="Stack Overflow, CrossEntropyLoss of one output is always 0; Humbatova 2020, Wrong number of "
                "output units",
            ),
        ),
    ),
    Program(
        "cells with a small u-net",
        "segmentation",
        setup="""
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(9)

def make_cells(n, size=16):
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    centre = torch.randint(4, 12, (n, 2, 1, 1))
    radius = torch.randint(2, 5, (n, 1, 1))
    mask = ((yy - centre[:, 0]) ** 2 + (xx - centre[:, 1]) ** 2 <= radius ** 2).float()
    image = 0.6 * mask + 0.3 * torch.rand(n, size, size)
    return image.unsqueeze(1), mask.unsqueeze(1)

def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))

class UNet(nn.Module):
    def __init__(self, c=6):
        super().__init__()
        self.down1 = double_conv(1, c)
        self.down2 = double_conv(c, 2 * c)
        self.bridge = double_conv(2 * c, 4 * c)
        self.up2 = nn.ConvTranspose2d(4 * c, 2 * c, 2, stride=2)
        self.dec2 = double_conv(4 * c, 2 * c)
        self.up1 = nn.ConvTranspose2d(2 * c, c, 2, stride=2)
        self.dec1 = double_conv(2 * c, c)
        self.final = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        d1 = self.down1(x)
        d2 = self.down2(F.max_pool2d(d1, 2))
        b = self.bridge(F.max_pool2d(d2, 2))
        u2 = self.dec2(torch.cat([self.up2(b), d2], dim=1))
        u1 = self.dec1(torch.cat([self.up1(u2), d1], dim=1))
        return self.final(u1)

def dice_loss(logits, mask, eps=1.0):
    p = torch.sigmoid(logits)
    inter = (p * mask).sum(dim=(1, 2, 3))
    return (1 - (2 * inter + eps) / (p.sum(dim=(1, 2, 3)) + mask.sum(dim=(1, 2, 3)) + eps)).mean()

images, masks = make_cells(64)
unet = UNet()
bce = nn.BCEWithLogitsLoss()
optimizer = torch.optim.AdamW(unet.parameters(), lr=4e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=8e-3, total_steps=40)
""",
        forward="""
idx = torch.arange(8) + 8 * (step % 8)
logits = unet(images[idx])
loss = bce(logits, masks[idx]) + dice_loss(logits, masks[idx])
""",
        update="""
optimizer.zero_grad(set_to_none=True)
loss.backward()
optimizer.step()
scheduler.step()
""",
        steps=40,
        faults=(
            Fault(
                "probabilities go into a loss of logits",
                "loss input",
                (("return self.final(u1)", "return torch.sigmoid(self.final(u1))"),),
                where=("sigmoid", "bce", "binary_cross_entropy_with_logits"),
                source="PyTorch forum, sigmoid before BCEWithLogitsLoss; Humbatova 2020, Wrong loss function",
            ),
            Fault(
                "softmax over the only channel",
                "output activation",
                (
                    ("return self.final(u1)", "return torch.softmax(self.final(u1), dim=1)"),
                    ("bce = nn.BCEWithLogitsLoss()", "bce = nn.BCELoss()"),
                    ("p = torch.sigmoid(logits)", "p = logits"),
                ),
                where=("softmax", "final"),
                source="Stack Overflow, softmax of one channel is always 1; Humbatova 2020, Wrong activation",
            ),
            Fault(
                "the dice of a thresholded mask",
                "cut",
                (
                    ("p = torch.sigmoid(logits)", "p = (torch.sigmoid(logits) > 0.5).float()"),
                    ("loss = bce(logits, masks[idx]) + dice_loss", "loss = dice_loss"),
                ),
                where=("gt", "> 0.5", "dice"),
                source="PyTorch forum, Dice loss of a thresholded prediction has no gradient",
            ),
            Fault(
                "cells of 255 in the masks",
                "target",
                (
                    (
                        "return image.unsqueeze(1), mask.unsqueeze(1)",
                        "return image.unsqueeze(1), 255 * mask.unsqueeze(1)",
                    ),
                ),
                where=("mask", "target", "bce", "binary_cross_entropy"),
                source="Stack Overflow, masks are read as 0 and 255 and the loss is negative; Humbatova 2020",
            ),
            Fault(
                "statistics follow the last batch alone",
                "normalization",
                (
                    (
                        "nn.BatchNorm2d(cout), nn.ReLU(inplace=True),\n",
                        "nn.BatchNorm2d(cout, momentum=0.0), nn.ReLU(inplace=True),\n",
                    ),
                ),
                where=("down1", "down2", "bridge", "dec", "BatchNorm"),
                source="PyTorch forum, momentum of Keras and of PyTorch are opposite; Humbatova 2020",
                hosts=LOOPS,
            ),
            Fault(
                "skips without a gradient",
                "cut",
                (
                    ("torch.cat([self.up2(b), d2], dim=1)", "torch.cat([self.up2(b), d2.data], dim=1)"),
                    ("d2 = self.down2(F.max_pool2d(d1, 2))", "d2 = self.down2(F.max_pool2d(d1.data, 2))"),
                    ("torch.cat([self.up1(u2), d1], dim=1)", "torch.cat([self.up1(u2), d1.data], dim=1)"),
                ),
                where=("down1", r"\.data", "d1"),
                source="PyTorch forum, .data cuts the graph; TrainCheck",
            ),
        ),
    ),
    Program(
        "faces by triplets",
        "metric learning",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(21)
people, shots, dim = 12, 10, 24
identity = torch.randn(people, dim)
faces = identity[:, None, :] + 0.9 * torch.randn(people, shots, dim)

def sample_triplets(n):
    who = torch.randint(0, people, (n,))
    other = (who + torch.randint(1, people, (n,))) % people
    a, p = torch.randint(0, shots, (2, n))
    q = torch.randint(0, shots, (n,))
    return faces[who, a], faces[who, p], faces[other, q]

class EmbeddingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(dim, 64), nn.PReLU(), nn.Dropout(0.05), nn.Linear(64, 64), nn.PReLU())
        self.project = nn.Linear(64, 16)
    def forward(self, x):
        return F.normalize(self.project(self.features(x)), dim=1)

class TripletTrainer:
    margin = 0.6
    def __init__(self):
        self.net = EmbeddingNet()
        self.net.train()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=3e-3, betas=(0.9, 0.999))
    def loss(self, anchor, positive, negative):
        a, p, n = self.net(anchor), self.net(positive), self.net(negative)
        gap = (a - p).pow(2).sum(1) - (a - n).pow(2).sum(1)
        return F.relu(gap + self.margin).mean()
    def update(self, loss):
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()

trainer = TripletTrainer()
""",
        forward="""
anchor, positive, negative = sample_triplets(64)
loss = trainer.loss(anchor, positive, negative)
""",
        update="""
trainer.update(loss)
""",
        steps=80,
        faults=(
            Fault(
                "faces are normalised over the batch",
                "wrong dimension",
                (("self.project(self.features(x)), dim=1)", "self.project(self.features(x)), dim=0)"),),
                where=("normalize", "dim", "norm"),
                source="Stack Overflow, F.normalize over the wrong dim; NeuraLint",
            ),
            Fault(
                "a margin below every gap",
                "dead units",
                (("margin = 0.6", "margin = -5.0"),),
                where=("relu", "margin", "gap"),
                source="Wu 2017, Sampling Matters: triplets whose loss is 0; Humbatova 2020, Wrong loss function",
            ),
            Fault(
                "the features are frozen in eval mode while they train",
                "eval mode",
                (("self.net.train()\n", "self.net.train()\n        self.net.features.eval()\n"),),
                where=("features", "eval"),
                source="PyTorch forum, a submodule in eval mode is trained; TrainCheck",
            ),
            Fault(
                "only the projection is handed to the optimizer",
                "no optimizer",
                (("torch.optim.Adam(self.net.parameters()", "torch.optim.Adam(self.net.project.parameters()"),),
                where=("features",),
                source="PyTorch forum, a part's parameters are not passed to the optimizer; torchtest",
            ),
            Fault(
                "embeddings through numpy",
                "cut",
                (
                    (
                        "return F.normalize(self.project(self.features(x)), dim=1)",
                        "z = self.features(x).detach().numpy()\n"
                        "        return F.normalize(self.project(torch.from_numpy(z)), dim=1)",
                    ),
                ),
                where=("features", "numpy"),
                source="Stack Overflow, numpy() breaks the graph; PyTorch forum",
            ),
            Fault(
                "momentum that lasts a thousand steps",
                "none found",
                (("lr=3e-3, betas=(0.9, 0.999)", "lr=3e-3, betas=(0.999, 0.9)"),),
                where=("betas", "beta", "momentum"),
                source="Humbatova 2020, Suboptimal optimizer parameters; Stack Overflow, betas swapped",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "two noisy views with a temperature",
        "contrastive",
        setup="""
import torch
from torch import nn
import torch.nn.functional as F
from types import SimpleNamespace as NS

hp = NS(n=32, d=20, temperature=0.2, lr=0.01, warmup=5, total=70)
torch.manual_seed(33)
bank = torch.randn(256, hp.d)

def augment(x):
    keep = (torch.rand_like(x) > 0.15).float()
    return x * keep + 0.2 * torch.randn_like(x)

encoder = nn.Sequential(nn.Linear(hp.d, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))
projector = nn.Sequential(nn.ReLU(), nn.Linear(32, 16))
params = list(encoder.parameters()) + list(projector.parameters())
opt = torch.optim.AdamW(params, lr=hp.lr, weight_decay=1e-4)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / hp.warmup))

def nt_xent(z1, z2):
    z = F.normalize(torch.cat([z1, z2]), dim=1)
    sim = z @ z.t() / hp.temperature
    sim = sim.masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))
    partner = torch.cat([torch.arange(len(z1)) + len(z1), torch.arange(len(z1))])
    return F.cross_entropy(sim, partner)
""",
        forward="""
x = bank[torch.randperm(256)[:hp.n]]
z_i, z_j = projector(encoder(augment(x))), projector(encoder(augment(x)))
loss = nt_xent(z_i, z_j)
""",
        update="""
opt.zero_grad()
loss.backward()
opt.step()
sched.step()
""",
        steps=70,
        faults=(
            Fault(
                "each view is its own partner",
                "data",
                (
                    ('    sim = sim.masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))\n', ""),
                    (
                        "partner = torch.cat([torch.arange(len(z1)) + len(z1), torch.arange(len(z1))])",
                        "partner = torch.arange(len(z))",
                    ),
                ),
                where=("partner", "target", "label", "cross_entropy"),
                source="SimCLR issues, the diagonal of the similarities is not masked",
                hosts=LOOPS,
            ),
            Fault(
                "a temperature of a thousand",
                "none found",
                (("temperature=0.2", "temperature=1000.0"),),
                where=("temperature", "div", "sim"),
                source="Humbatova 2020, Suboptimal hyperparameters; SimCLR issues, the loss stays at log(2n)",
                hosts=LOOPS,
            ),
            Fault(
                "the warm-up falls from there to 0",
                "rate too small",
                (("min(1.0, (s + 1) / hp.warmup)", "max(0.0, 1.0 - (s + 1) / hp.warmup)"),),
                where=(r"\blr\b", "rate", "schedule"),
                source="PyTorch forum, a LambdaLR whose factor falls to 0; Humbatova 2020, Suboptimal learning rate",
                hosts=LOOPS,
            ),
            Fault(
                "the encoder has no optimizer",
                "no optimizer",
                (
                    (
                        "params = list(encoder.parameters()) + list(projector.parameters())",
                        "params = list(projector.parameters())",
                    ),
                ),
                where=("encoder", r"\b0\b", "weight"),
                source="PyTorch forum, the second network's parameters are not passed to the optimizer",
            ),
            Fault(
                "similar views are pushed apart",
                "sign",
                (("return F.cross_entropy(sim, partner)", "return -F.cross_entropy(sim, partner)"),),
                where=("cross_entropy", "neg", "nt_xent", "loss"),
                source="Humbatova 2020, Wrong loss function calculation",
                hosts=LOOPS,
            ),
        ),
    ),
)
