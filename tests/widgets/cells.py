"""Networks as people write them in a notebook: the body of each function is the text of two cells.

The part above the line ``# %%`` is an ordinary cell: imports, modules, data. The part below is recorded. Nothing calls
these functions: ``source`` returns their texts, which run as cells, so that names, lines and variables are those that a
reader would see. Some programs have a fault, which their first line names.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812  # as people write it
from torch import nn

import nbgrad

CELLS: dict[str, Callable[[], None]] = {}
"""The functions by their names, as a reader would call the networks."""


class Source(NamedTuple):
    """The text of two cells: the one before, and the recorded one."""

    before: str
    recorded: str


def cell(function: Callable[[], None]) -> Callable[[], None]:
    """Add a function whose body is the text of two cells."""
    CELLS[function.__name__.replace("_", " ")] = function
    return function


def source(name: str) -> Source:
    """The text of the cells of that network."""
    return written(CELLS[name])


def written(network: Callable[[], None]) -> Source:
    """The text of the cells in the body of a function."""
    text = textwrap.dedent(inspect.getsource(network))
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    lines = text.splitlines()[function.body[0].end_lineno :]  # below the docstring
    before, recorded = textwrap.dedent("\n".join(lines)).split("# %%\n")
    return Source(f"{IMPORTS}\n{before}", recorded)


def recorded(network: Callable[[], None], times: int = 1, name: str = "graph 1") -> nbgrad.AutogradGraph:
    """The graph of the cells of a function, the second of which ran as often as that."""
    source, variables = written(network), dict[str, Any]()
    exec(source.before, variables)
    with nbgrad.record(name) as graph:
        for _ in range(times):
            exec(source.recorded, variables)
    return graph


IMPORTS = """import torch
import torch.nn.functional as F
from torch import nn
import nbgrad
_ = torch.manual_seed(0), nbgrad.manual_seed(0)
"""


# Small ones.


@cell
def own_torch_model() -> None:
    """The five ops of the README."""
    # %%
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    loss = net(torch.randn(16, 2)).pow(2).mean()
    loss.backward()


@cell
def linear_regression() -> None:
    """A line through points, by hand."""
    x = torch.linspace(0, 1, 32)
    y = 3 * x + 1
    w = torch.zeros((), requires_grad=True)
    b = torch.zeros((), requires_grad=True)
    # %%
    for _ in range(5):
        w.grad = b.grad = None
        loss = ((x * w + b - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            b -= 0.1 * b.grad


@cell
def logistic_regression() -> None:
    """Two classes, with a penalty of the weights."""
    x, y = torch.randn(64, 10), torch.randint(0, 2, (64,)).float()
    w = torch.randn(10, requires_grad=True)
    b = torch.zeros(1, requires_grad=True)
    # %%
    p = torch.sigmoid(x @ w + b)
    loss = -(y * p.log() + (1 - y) * (1 - p).log()).mean() + 0.01 * w.pow(2).sum()
    loss.backward()


@cell
def own_engine_regression() -> None:
    """A regression in nbgrad's own engine."""
    x = nbgrad.tensor(torch.randn(32, 3))
    y = nbgrad.tensor(torch.randn(32, 1))
    w = nbgrad.tensor(torch.randn(3, 1), requires_grad=True)
    b = nbgrad.tensor([0.0], requires_grad=True)
    # %%
    pred = x @ w + b
    loss = ((pred - y) ** 2).mean()
    loss.backward()


@cell
def own_engine_mlp() -> None:
    """An MLP in nbgrad's own engine, three steps."""
    net = nbgrad.nn.Sequential(
        nbgrad.nn.Linear(8, 32), nbgrad.nn.ReLU(), nbgrad.nn.Linear(32, 32), nbgrad.nn.ReLU(), nbgrad.nn.Linear(32, 4)
    )
    x, y = nbgrad.tensor(torch.randn(64, 8)), nbgrad.tensor(torch.randint(0, 4, (64,)))
    optimizer = nbgrad.optim.Adam(net.parameters(), lr=1e-3)
    # %%
    for _ in range(3):
        optimizer.zero_grad()
        loss = nbgrad.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()


@cell
def own_engine_cnn() -> None:
    """A small convolutional network in nbgrad's own engine."""
    net = nbgrad.nn.Sequential(
        *(nbgrad.nn.Conv2d(1, 8, 3, padding=1), nbgrad.nn.BatchNorm2d(8), nbgrad.nn.ReLU(), nbgrad.nn.MaxPool2d(2)),
        *(nbgrad.nn.Conv2d(8, 16, 3, padding=1), nbgrad.nn.BatchNorm2d(16), nbgrad.nn.ReLU(), nbgrad.nn.MaxPool2d(2)),
        *(nbgrad.nn.Flatten(), nbgrad.nn.Linear(16 * 7 * 7, 10)),
    )
    x, y = nbgrad.tensor(torch.randn(8, 1, 28, 28)), nbgrad.tensor(torch.randint(0, 10, (8,)))
    # %%
    loss = nbgrad.nn.functional.cross_entropy(net(x), y)
    loss.backward()


@cell
def own_engine_transformer() -> None:
    """Four encoder layers in nbgrad's own engine."""
    layer = nbgrad.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    net = nbgrad.nn.Sequential(
        nbgrad.nn.Embedding(50, 32), nbgrad.nn.TransformerEncoder(layer, 4), nbgrad.nn.Linear(32, 50)
    )
    tokens = nbgrad.tensor(torch.randint(0, 50, (4, 12)))
    # %%
    loss = nbgrad.nn.functional.cross_entropy(net(tokens).reshape(-1, 50), tokens.reshape(-1))
    loss.backward()


@cell
def mlp() -> None:
    """Three hidden layers and an optimizer, a loop of 20 steps."""
    net = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    # %%
    for _ in range(20):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()


@cell
def residual_mlp() -> None:
    """Six residual blocks with layer norm."""

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm = nn.LayerNorm(width)
            self.fc1 = nn.Linear(width, 4 * width)
            self.fc2 = nn.Linear(4 * width, width)

        def forward(self, x):
            return x + self.fc2(F.gelu(self.fc1(self.norm(x))))

    class ResidualMLP(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Linear(20, 32)
            self.blocks = nn.ModuleList([Block(32) for _ in range(6)])
            self.head = nn.Linear(32, 1)

        def forward(self, x):
            x = self.stem(x)
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    net = ResidualMLP()
    x, y = torch.randn(64, 20), torch.randn(64, 1)
    # %%
    pred = net(x)
    loss = F.mse_loss(pred, y)
    loss.backward()


@cell
def autoencoder() -> None:
    """Pictures of 28 x 28 through a bottle neck of 8."""
    encoder = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, 8))
    decoder = nn.Sequential(
        nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 784), nn.Sigmoid()
    )
    x = torch.rand(16, 784)
    # %%
    z = encoder(x)
    reconstruction = decoder(z)
    loss = F.mse_loss(reconstruction, x)
    loss.backward()


@cell
def matrix_factorisation() -> None:
    """Users and films, with biases."""
    users, films = nn.Embedding(100, 16), nn.Embedding(200, 16)
    user_bias, film_bias = nn.Embedding(100, 1), nn.Embedding(200, 1)
    who, what, stars = torch.randint(0, 100, (64,)), torch.randint(0, 200, (64,)), torch.rand(64) * 5
    # %%
    score = (users(who) * films(what)).sum(dim=1)
    predicted = score + user_bias(who).squeeze(1) + film_bias(what).squeeze(1)
    loss = F.mse_loss(predicted, stars) + 1e-3 * (users.weight.norm() + films.weight.norm())
    loss.backward()


@cell
def word2vec() -> None:
    """Skip-grams with negative samples."""
    centre, context = nn.Embedding(500, 32), nn.Embedding(500, 32)
    words, near, far = torch.randint(0, 500, (64,)), torch.randint(0, 500, (64,)), torch.randint(0, 500, (64, 5))
    # %%
    v = centre(words)
    positive = F.logsigmoid((v * context(near)).sum(1))
    negative = F.logsigmoid(-(context(far) @ v.unsqueeze(2)).squeeze(2)).sum(1)
    loss = -(positive + negative).mean()
    loss.backward()


# Pictures.


@cell
def lenet() -> None:
    """LeNet-5."""

    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
            self.conv2 = nn.Conv2d(6, 16, 5)
            self.fc1 = nn.Linear(16 * 5 * 5, 120)
            self.fc2 = nn.Linear(120, 84)
            self.fc3 = nn.Linear(84, 10)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv1(x)), 2)
            x = F.max_pool2d(F.relu(self.conv2(x)), 2)
            x = x.flatten(1)
            x = F.relu(self.fc1(x))
            x = F.relu(self.fc2(x))
            return self.fc3(x)

    net = LeNet()
    images, labels = torch.randn(16, 1, 28, 28), torch.randint(0, 10, (16,))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    # %%
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()


@cell
def alexnet() -> None:
    """An AlexNet for small pictures."""
    features = nn.Sequential(
        *(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(64, 96, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(96, 64, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
    )
    classifier = nn.Sequential(
        *(nn.Dropout(), nn.Linear(64 * 16, 256), nn.ReLU()),
        *(nn.Dropout(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)),
    )
    net = nn.Sequential(features, nn.Flatten(), classifier)
    x, y = torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))
    # %%
    out = net(x)
    loss = nn.CrossEntropyLoss()(out, y)
    loss.backward()


@cell
def resnet18() -> None:
    """A ResNet-18, written by hand."""

    class BasicBlock(nn.Module):
        def __init__(self, inside, outside, stride=1):
            super().__init__()
            self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outside)
            self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outside)
            self.downsample = None
            if stride != 1 or inside != outside:
                self.downsample = nn.Sequential(
                    nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
                )

        def forward(self, x):
            identity = x if self.downsample is None else self.downsample(x)
            out = F.relu(self.bn1(self.conv1(x)))
            out = self.bn2(self.conv2(out))
            return F.relu(out + identity)

    class ResNet(nn.Module):
        def __init__(self, classes=10):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 16, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(16)
            self.maxpool = nn.MaxPool2d(3, 2, 1)
            self.layer1 = nn.Sequential(BasicBlock(16, 16), BasicBlock(16, 16))
            self.layer2 = nn.Sequential(BasicBlock(16, 32, 2), BasicBlock(32, 32))
            self.layer3 = nn.Sequential(BasicBlock(32, 64, 2), BasicBlock(64, 64))
            self.layer4 = nn.Sequential(BasicBlock(64, 128, 2), BasicBlock(128, 128))
            self.avgpool = nn.AdaptiveAvgPool2d(1)
            self.fc = nn.Linear(128, classes)

        def forward(self, x):
            x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
            x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
            return self.fc(self.avgpool(x).flatten(1))

    net = ResNet()
    images, labels = torch.randn(4, 3, 64, 64), torch.randint(0, 10, (4,))
    # %%
    logits = net(images)
    loss = F.cross_entropy(logits, labels)
    loss.backward()


@cell
def unet() -> None:
    """A U-Net of three levels."""

    class Double(nn.Module):
        def __init__(self, inside, outside):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(inside, outside, 3, padding=1), nn.Conv2d(outside, outside, 3, padding=1)

        def forward(self, x):
            return F.relu(self.conv2(F.relu(self.conv1(x))))

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down1, self.down2, self.down3 = Double(1, 8), Double(8, 16), Double(16, 32)
            self.middle = Double(32, 64)
            self.up3, self.up2, self.up1 = (nn.ConvTranspose2d(2 * n, n, 2, 2) for n in (32, 16, 8))
            self.dec3, self.dec2, self.dec1 = Double(64, 32), Double(32, 16), Double(16, 8)
            self.out = nn.Conv2d(8, 2, 1)

        def forward(self, x):
            a = self.down1(x)
            b = self.down2(F.max_pool2d(a, 2))
            c = self.down3(F.max_pool2d(b, 2))
            x = self.middle(F.max_pool2d(c, 2))
            x = self.dec3(torch.cat([self.up3(x), c], 1))
            x = self.dec2(torch.cat([self.up2(x), b], 1))
            x = self.dec1(torch.cat([self.up1(x), a], 1))
            return self.out(x)

    net = UNet()
    images, masks = torch.randn(2, 1, 32, 32), torch.randint(0, 2, (2, 32, 32))
    # %%
    loss = F.cross_entropy(net(images), masks)
    loss.backward()


@cell
def densenet() -> None:
    """Two dense blocks: each layer reads all the layers before it."""

    class Layer(nn.Module):
        def __init__(self, inside, grows):
            super().__init__()
            self.norm, self.conv = nn.BatchNorm2d(inside), nn.Conv2d(inside, grows, 3, padding=1)

        def forward(self, x):
            return torch.cat([x, self.conv(F.relu(self.norm(x)))], 1)

    net = nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), *[Layer(8 + 4 * i, 4) for i in range(4)]),
        *(nn.Conv2d(24, 12, 1), nn.AvgPool2d(2), *[Layer(12 + 4 * i, 4) for i in range(4)]),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(28, 10)),
    )
    x, y = torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,))
    # %%
    loss = F.cross_entropy(net(x), y)
    loss.backward()


@cell
def inception() -> None:
    """Three blocks of four branches."""

    class Inception(nn.Module):
        def __init__(self, inside, width):
            super().__init__()
            self.branch1 = nn.Conv2d(inside, width, 1)
            self.branch3 = nn.Sequential(nn.Conv2d(inside, width, 1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))
            self.branch5 = nn.Sequential(nn.Conv2d(inside, width, 1), nn.ReLU(), nn.Conv2d(width, width, 5, padding=2))
            self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(inside, width, 1))

        def forward(self, x):
            return torch.cat([F.relu(f(x)) for f in (self.branch1, self.branch3, self.branch5, self.pool)], 1)

    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), Inception(8, 4), Inception(16, 6), Inception(24, 8),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    x, y = torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,))
    # %%
    loss = F.cross_entropy(net(x), y)
    loss.backward()


@cell
def siamese() -> None:
    """One network of two pictures, and a contrastive margin."""
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 16, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 32)
    )
    one, other, same = torch.randn(8, 1, 28, 28), torch.randn(8, 1, 28, 28), torch.randint(0, 2, (8,)).float()
    # %%
    distance = (net(one) - net(other)).pow(2).sum(1).add(1e-9).sqrt()
    loss = (same * distance.pow(2) + (1 - same) * F.relu(1 - distance).pow(2)).mean()
    loss.backward()


@cell
def contrastive_loss() -> None:
    """Two views of each picture, compared with all others."""
    encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
    x = torch.randn(16, 64)
    # %%
    z1 = F.normalize(encoder(x + 0.1 * torch.randn_like(x)), dim=1)
    z2 = F.normalize(encoder(x + 0.1 * torch.randn_like(x)), dim=1)
    z = torch.cat([z1, z2])
    similarity = z @ z.T / 0.5
    similarity = similarity.masked_fill(torch.eye(32, dtype=torch.bool), -1e9)
    targets = torch.cat([torch.arange(16, 32), torch.arange(16)])
    loss = F.cross_entropy(similarity, targets)
    loss.backward()


# Generative ones.


@cell
def vae() -> None:
    """A variational autoencoder."""

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(784, 200)
            self.fc21, self.fc22 = nn.Linear(200, 20), nn.Linear(200, 20)
            self.fc3, self.fc4 = nn.Linear(20, 200), nn.Linear(200, 784)

        def encode(self, x):
            h = F.relu(self.fc1(x))
            return self.fc21(h), self.fc22(h)

        def forward(self, x):
            mu, logvar = self.encode(x)
            std = torch.exp(0.5 * logvar)
            z = mu + torch.randn_like(std) * std
            return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar

    net = VAE()
    x = torch.rand(16, 784)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    # %%
    recon, mu, logvar = net(x)
    bce = F.binary_cross_entropy(recon, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    loss = bce + kld
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@cell
def gan() -> None:
    """A GAN: a step of the discriminator and a step of the generator."""
    generator = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 128), nn.Tanh())
    discriminator = nn.Sequential(nn.Linear(128, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-4)
    d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=2e-4)
    real = torch.rand(32, 128)
    # %%
    for _ in range(2):
        fake = generator(torch.randn(32, 16))
        d_optimizer.zero_grad()
        d_loss = F.binary_cross_entropy_with_logits(
            discriminator(real), torch.ones(32, 1)
        ) + F.binary_cross_entropy_with_logits(discriminator(fake.detach()), torch.zeros(32, 1))
        d_loss.backward()
        d_optimizer.step()
        g_optimizer.zero_grad()
        g_loss = F.binary_cross_entropy_with_logits(discriminator(fake), torch.ones(32, 1))
        g_loss.backward()
        g_optimizer.step()


@cell
def gradient_penalty() -> None:
    """The critic of a Wasserstein GAN: its slope is part of its loss."""
    critic = nn.Sequential(nn.Linear(32, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    real, fake = torch.randn(16, 32), torch.randn(16, 32)
    # %%
    t = torch.rand(16, 1)
    mixed = (t * real + (1 - t) * fake).requires_grad_()
    score = critic(mixed)
    (slope,) = torch.autograd.grad(score.sum(), mixed, create_graph=True)
    penalty = (slope.norm(2, dim=1) - 1).pow(2).mean()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
    loss.backward()


@cell
def diffusion_step() -> None:
    """A denoising network learns the noise of a random time."""

    class Denoiser(nn.Module):
        def __init__(self):
            super().__init__()
            self.time = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 32))
            self.conv1, self.conv2 = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)
            self.norm1, self.norm2 = nn.GroupNorm(4, 32), nn.GroupNorm(4, 32)
            self.out = nn.Conv2d(32, 1, 3, padding=1)

        def forward(self, x, t):
            freqs = torch.exp(-torch.arange(16) / 4.0)
            angles = t[:, None] * freqs
            emb = self.time(torch.cat([angles.sin(), angles.cos()], 1))
            h = F.silu(self.norm1(self.conv1(x))) + emb[:, :, None, None]
            h = F.silu(self.norm2(self.conv2(h))) + h
            return self.out(h)

    net = Denoiser()
    images = torch.randn(4, 1, 16, 16)
    alphas = torch.linspace(0.999, 0.9, 100).cumprod(0)
    # %%
    t = torch.randint(0, 100, (4,))
    noise = torch.randn_like(images)
    a = alphas[t].view(-1, 1, 1, 1)
    noisy = a.sqrt() * images + (1 - a).sqrt() * noise
    loss = F.mse_loss(net(noisy, t.float()), noise)
    loss.backward()


@cell
def normalising_flow() -> None:
    """Four coupling layers and the density of their inputs."""

    class Coupling(nn.Module):
        def __init__(self, width, flip):
            super().__init__()
            self.flip = flip
            self.net = nn.Sequential(nn.Linear(width // 2, 32), nn.ReLU(), nn.Linear(32, width))

        def forward(self, x):
            a, b = x.chunk(2, 1)
            if self.flip:
                a, b = b, a
            scale, shift = self.net(a).chunk(2, 1)
            scale = torch.tanh(scale)
            b = b * scale.exp() + shift
            return torch.cat([b, a] if self.flip else [a, b], 1), scale.sum(1)

    flow = nn.ModuleList([Coupling(4, i % 2 == 1) for i in range(4)])
    x = torch.randn(64, 4)
    # %%
    z, log_det = x, torch.zeros(64)
    for layer in flow:
        z, d = layer(z)
        log_det = log_det + d
    log_prob = -0.5 * (z**2).sum(1) - 2 * torch.log(torch.tensor(2 * torch.pi)) + log_det
    loss = -log_prob.mean()
    loss.backward()


# Sequences.


@cell
def lstm() -> None:
    """torch's LSTM of two layers that go both ways."""

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(100, 16)
            self.lstm = nn.LSTM(16, 32, num_layers=2, bidirectional=True, batch_first=True)
            self.head = nn.Linear(64, 5)

        def forward(self, x):
            out, _ = self.lstm(self.embed(x))
            return self.head(out)

    net = Tagger()
    words, tags = torch.randint(0, 100, (4, 12)), torch.randint(0, 5, (4, 12))
    # %%
    loss = F.cross_entropy(net(words).reshape(-1, 5), tags.reshape(-1))
    loss.backward()


@cell
def lstm_by_hand() -> None:
    """An LSTM whose gates are written out, over 8 steps."""
    w = nn.Linear(16, 128)
    u = nn.Linear(32, 128, bias=False)
    head = nn.Linear(32, 1)
    x, y = torch.randn(8, 4, 16), torch.randn(4, 1)
    # %%
    h = c = torch.zeros(4, 32)
    for step in range(8):
        i, f, g, o = (w(x[step]) + u(h)).chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    loss = F.mse_loss(head(h), y)
    loss.backward()


@cell
def gru() -> None:
    """A GRU as a language model of letters."""
    embed, gru, head = nn.Embedding(64, 32), nn.GRU(32, 64, batch_first=True), nn.Linear(64, 64)
    text = torch.randint(0, 64, (8, 33))
    parameters = [*embed.parameters(), *gru.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    # %%
    out, _ = gru(embed(text[:, :-1]))
    logits = head(out)
    loss = F.cross_entropy(logits.transpose(1, 2), text[:, 1:])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()


@cell
def rnn_loop() -> None:
    """An RNN by hand, over 50 steps."""
    wx = (torch.randn(8, 16) * 0.3).requires_grad_()
    wh = (torch.randn(16, 16) * 0.2).requires_grad_()
    b = torch.zeros(16, requires_grad=True)
    xs, y = torch.randn(50, 4, 8), torch.randn(4, 16)
    # %%
    h = torch.zeros(4, 16)
    for x in xs:
        h = torch.tanh(x @ wx + h @ wh + b)
    loss = ((h - y) ** 2).mean()
    loss.backward()


@cell
def seq2seq() -> None:
    """An encoder, and a decoder with attention over 6 words."""

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.cell = nn.Embedding(60, 16), nn.GRUCell(48, 32)
            self.attend, self.out = nn.Linear(32, 32), nn.Linear(64, 60)

        def forward(self, word, h, memory):
            scores = (memory @ self.attend(h).unsqueeze(2)).squeeze(2)
            context = (F.softmax(scores, 1).unsqueeze(1) @ memory).squeeze(1)
            h = self.cell(torch.cat([self.embed(word), context], 1), h)
            return self.out(torch.cat([h, context], 1)), h

    source, encoder, decoder = nn.Embedding(60, 16), nn.GRU(16, 32, batch_first=True), Decoder()
    words, target = torch.randint(0, 60, (4, 9)), torch.randint(0, 60, (4, 7))
    # %%
    memory, h = encoder(source(words))
    h, loss = h[0], 0.0
    for step in range(6):
        logits, h = decoder(target[:, step], h, memory)
        loss = loss + F.cross_entropy(logits, target[:, step + 1])
    loss = loss / 6
    loss.backward()


@cell
def gpt() -> None:
    """A GPT of 12 blocks."""

    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (one.view(b, t, self.heads, -1).transpose(1, 2) for one in self.c_attn(x).split(c, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.c_proj(y.transpose(1, 2).reshape(b, t, c))

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.ln_1, self.attn = nn.LayerNorm(width), Attention(width, heads)
            self.ln_2 = nn.LayerNorm(width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    class GPT(nn.Module):
        def __init__(self, words=64, width=48, heads=4, layers=12, context=16):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(context, width)
            self.h = nn.ModuleList([Block(width, heads) for _ in range(layers)])
            self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, tokens):
            x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
            for block in self.h:
                x = block(x)
            return self.lm_head(self.ln_f(x))

    net = GPT()
    tokens = torch.randint(0, 64, (2, 17))
    # %%
    logits = net(tokens[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, 64), tokens[:, 1:].reshape(-1))
    loss.backward()


@cell
def encoder_transformer() -> None:
    """torch's encoder of four layers, for sentences of two classes."""

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(100, 32)
            self.place = nn.Parameter(torch.zeros(20, 32))
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
            self.head = nn.Linear(32, 2)

        def forward(self, x):
            return self.head(self.encoder(self.embed(x) + self.place).mean(1))

    net = Classifier()
    x, y = torch.randint(0, 100, (8, 20)), torch.randint(0, 2, (8,))
    # %%
    loss = F.cross_entropy(net(x), y)
    loss.backward()


@cell
def vision_transformer() -> None:
    """A ViT of six blocks, with a class token."""

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
            self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

        def forward(self, x):
            h = self.norm1(x)
            x = x + self.attn(h, h, h, need_weights=False)[0]
            return x + self.mlp(self.norm2(x))

    class ViT(nn.Module):
        def __init__(self, width=32):
            super().__init__()
            self.patch = nn.Conv2d(3, width, 8, 8)
            self.cls = nn.Parameter(torch.zeros(1, 1, width))
            self.pos = nn.Parameter(torch.randn(1, 17, width) * 0.02)
            self.blocks = nn.Sequential(*[Block(width, 4) for _ in range(6)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
            return self.head(self.norm(self.blocks(x))[:, 0])

    net = ViT()
    x, y = torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))
    # %%
    loss = F.cross_entropy(net(x), y)
    loss.backward()


@cell
def mixture_of_experts() -> None:
    """A gate and four experts of one shape."""

    class Expert(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            return self.down(F.gelu(self.up(x)))

    class MoE(nn.Module):
        def __init__(self, width, experts):
            super().__init__()
            self.gate = nn.Linear(width, experts)
            self.experts = nn.ModuleList([Expert(width) for _ in range(experts)])

        def forward(self, x):
            weights = F.softmax(self.gate(x), -1)
            return sum(weights[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts))

    net = nn.Sequential(nn.Linear(16, 32), MoE(32, 4), nn.LayerNorm(32), nn.Linear(32, 4))
    x, y = torch.randn(64, 16), torch.randint(0, 4, (64,))
    # %%
    loss = F.cross_entropy(net(x), y)
    loss.backward()


# Sciences, graphs, and other ways to learn.


@cell
def pinn() -> None:
    """A network that solves the heat equation: second derivatives in the loss."""
    net = nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1))
    x, t = torch.rand(64, 1, requires_grad=True), torch.rand(64, 1, requires_grad=True)
    x0 = torch.rand(32, 1)
    # %%
    u = net(torch.cat([x, t], 1))
    (u_t,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    (u_x,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
    physics = ((u_t - 0.1 * u_xx) ** 2).mean()
    start = ((net(torch.cat([x0, torch.zeros_like(x0)], 1)) - torch.sin(torch.pi * x0)) ** 2).mean()
    loss = physics + start
    loss.backward()


@cell
def neural_ode() -> None:
    """A network as the slope of a curve, followed by Euler's steps."""
    f = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    z0, end = torch.randn(16, 2), torch.randn(16, 2)
    # %%
    z, dt = z0, 1 / 20
    for _ in range(20):
        z = z + dt * f(z)
    loss = F.mse_loss(z, end)
    loss.backward()


@cell
def graph_network() -> None:
    """Three rounds of messages between the nodes of a graph."""

    class Round(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.message, self.update = nn.Linear(2 * width, width), nn.GRUCell(width, width)

        def forward(self, h, source, target):
            sent = F.relu(self.message(torch.cat([h[source], h[target]], 1)))
            got = torch.zeros_like(h).index_add(0, target, sent)
            return self.update(got, h)

    rounds, embed, head = nn.ModuleList([Round(16) for _ in range(3)]), nn.Linear(4, 16), nn.Linear(16, 1)
    features, y = torch.randn(10, 4), torch.randn(1)
    source, target = torch.randint(0, 10, (30,)), torch.randint(0, 10, (30,))
    # %%
    h = embed(features)
    for one in rounds:
        h = one(h, source, target)
    loss = F.mse_loss(head(h.mean(0)), y)
    loss.backward()


@cell
def maml_step() -> None:
    """A step of MAML: the gradient of a loss after a gradient step, for two tasks."""
    w1, b1 = (torch.randn(40, 1) * 0.5).requires_grad_(), torch.zeros(40, requires_grad=True)
    w2, b2 = (torch.randn(1, 40) * 0.1).requires_grad_(), torch.zeros(1, requires_grad=True)
    tasks = [(torch.randn(10, 1), torch.randn(10, 1), torch.randn(10, 1), torch.randn(10, 1)) for _ in range(2)]

    def predict(x, w1, b1, w2, b2):
        return F.linear(F.relu(F.linear(x, w1, b1)), w2, b2)

    # %%
    meta_loss = 0.0
    for x, y, x_test, y_test in tasks:
        inner = F.mse_loss(predict(x, w1, b1, w2, b2), y)
        grads = torch.autograd.grad(inner, (w1, b1, w2, b2), create_graph=True)
        fast = [p - 0.01 * g for p, g in zip((w1, b1, w2, b2), grads, strict=True)]
        meta_loss = meta_loss + F.mse_loss(predict(x_test, *fast), y_test)
    meta_loss.backward()


@cell
def policy_gradient() -> None:
    """REINFORCE over an episode of 12 steps, with a baseline."""
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    value = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
    state = torch.randn(4)
    # %%
    log_probs, values, rewards = [], [], []
    for step in range(12):
        choice = torch.distributions.Categorical(logits=policy(state))
        action = choice.sample()
        log_probs.append(choice.log_prob(action))
        values.append(value(state).squeeze())
        rewards.append(1.0 - 0.05 * step)
        state = state + 0.1 * torch.randn(4)
    returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    advantage = returns - torch.stack(values)
    loss = -(torch.stack(log_probs) * advantage.detach()).mean() + 0.5 * advantage.pow(2).mean()
    loss.backward()


@cell
def multi_task() -> None:
    """One trunk, two heads, two losses with learned weights."""
    trunk = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
    kind, size = nn.Linear(32, 5), nn.Linear(32, 1)
    log_vars = nn.Parameter(torch.zeros(2))
    x, labels, values = torch.randn(32, 20), torch.randint(0, 5, (32,)), torch.randn(32, 1)
    # %%
    shared = trunk(x)
    kind_loss = F.cross_entropy(kind(shared), labels)
    size_loss = F.mse_loss(size(shared), values)
    loss = (torch.stack([kind_loss, size_loss]) * torch.exp(-log_vars) + log_vars).sum()
    loss.backward()


# Faults and odd programs.


@cell
def nan_program() -> None:
    """A fault: the log of a probability that is 0."""
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    x, y = torch.randn(16, 10), torch.eye(3)[torch.randint(0, 3, (16,))]
    x[3] *= 1e4
    # %%
    p = F.softmax(net(x), dim=1)
    loss = -(y * torch.log(p)).sum(1).mean()
    loss.backward()


@cell
def detach_bug() -> None:
    """A fault: the first layers get no gradient, because of a detach."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 16))
            self.head = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))

        def forward(self, x):
            z = self.encoder(x)
            return self.head(z.detach())

    net = Net()
    x, y = torch.randn(32, 12), torch.randn(32, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    # %%
    for _ in range(4):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()


@cell
def shape_error() -> None:
    """A fault: the last layer does not fit and raises."""
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 12 * 12, 10))
    x, y = torch.randn(4, 1, 28, 28), torch.randint(0, 10, (4,))
    # %%
    loss = F.cross_entropy(net(x), y)
    loss.backward()


@cell
def irregular_loop() -> None:
    """60 iterations of 4 kinds: the branch that is taken differs."""
    w = (torch.randn(8, 8) * 0.3).requires_grad_()
    gain = torch.ones(8, requires_grad=True)
    h0 = torch.randn(4, 8)
    kinds = [(i * i + i // 7) % 4 for i in range(60)]
    # %%
    h = h0
    for kind in kinds:
        h = torch.tanh(h @ w)
        if kind == 1:
            h = h * gain
        elif kind == 2:
            h = F.relu(h) + 0.1
        elif kind == 3:
            h = h - h.mean(dim=1, keepdim=True)
    loss = h.pow(2).mean()
    loss.backward()


@cell
def irregular_ops() -> None:
    """Some 240 ops in an order that repeats nothing."""
    import random

    draw = random.Random(0)
    x = torch.rand(16, requires_grad=True)
    one = (torch.sin, torch.cos, torch.tanh, torch.sigmoid, torch.neg, torch.square)
    two = (torch.add, torch.mul, torch.sub, torch.maximum)
    # %%
    ends = [x]
    for _ in range(240):
        if len(ends) > 1 and draw.random() < 0.4:
            a, b = (ends.pop(draw.randrange(len(ends))) for _ in range(2))
            ends.append(draw.choice(two)(a, b))
        else:
            ends.append(draw.choice(one)(ends.pop() if draw.random() < 0.7 else ends[-1]))
    loss = sum(ends).sum()
    loss.backward()
