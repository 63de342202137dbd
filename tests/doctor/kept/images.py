"""Images: classifiers, segmentation, autoencoders, networks that are fine-tuned."""

from tests.doctor.program import Fault, Program

LOOPS = ("whole", "loop", "function")

SHAPES = Program(
    "bars and crosses",
    "image classifier",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader

class Bars(Dataset):
    def __init__(self, n=192):
        generator = torch.Generator().manual_seed(7)
        self.y = torch.arange(n) % 4
        images = torch.zeros(n, 1, 8, 8)
        for i, kind in enumerate(self.y.tolist()):
            a = int(torch.randint(1, 7, (1,), generator=generator))
            if kind == 0:
                images[i, 0, a] = 1.0
            elif kind == 1:
                images[i, 0, :, a] = 1.0
            elif kind == 2:
                images[i, 0].fill_diagonal_(1.0)
            else:
                images[i, 0, a] = images[i, 0, :, a] = 1.0
        self.x = (images + 0.15 * torch.randn(images.shape, generator=generator)).clamp(0, 1)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        image = self.x[index]
        return (image - 0.2) / 0.35, self.y[index]

class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(16)
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(16 * 4, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        x = self.dropout(torch.flatten(x, 1))
        return F.log_softmax(self.classifier(x), dim=1)

torch.manual_seed(8)
train_loader = DataLoader(Bars(), batch_size=32, shuffle=True)
cnn = ConvNet()
optimizer = torch.optim.RMSprop(cnn.parameters(), lr=2e-3)
stream = iter(())
""",
    """
data = next(stream, None)
if data is None:
    stream = iter(train_loader)
    data = next(stream)
images, target = data
cnn.train()
output = cnn(images)
loss = F.nll_loss(output, target)
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    faults=(
        Fault(
            "softmax over the batch",
            "wrong dimension",
            (("F.log_softmax(self.classifier(x), dim=1)", "F.log_softmax(self.classifier(x), dim=0)"),),
            (r"log_softmax",),
            "Stack Overflow: softmax with the wrong dim; Karpathy's recipe: information passes between the rows",
        ),
        Fault(
            "probabilities in nll_loss",
            "loss input",
            (("return F.log_softmax(", "return F.softmax("),),
            (r"softmax", r"nll"),
            "Humbatova 2020: wrong loss function; Stack Overflow: negative loss of nll_loss",
        ),
        Fault(
            "momentum of the batch norm is 0",
            "normalization",
            (("nn.BatchNorm2d(16)", "nn.BatchNorm2d(16, momentum=0.0)"),),
            (r"bn2",),
            "Keras's and PyTorch's momentum confused; Full Stack Deep Learning: batch norm statistics",
        ),
        Fault(
            "evaluation mode from the start",
            "eval mode",
            (("cnn.train()\n", "cnn.eval()\n"),),
            (r"bn1", r"bn2", r"dropout", r"eval", r"cnn"),
            "Full Stack Deep Learning: forgot train mode; Zhang 2018",
        ),
        Fault(
            "dataset always reads its first row",
            "data",
            (("image = self.x[index]\n", "image = self.x[0]\n"),),
            (r"\bimages\b", r"conv1", r"Bars", r"\(32, 1, 8, 8\)"),
            "Humbatova 2020: training data, wrong selection; Karpathy's recipe: look at what enters the net",
        ),
        Fault(
            "dropout on the scores",
            "dropout",
            (("F.log_softmax(self.classifier(x), dim=1)", "F.log_softmax(F.dropout(self.classifier(x), 0.6), dim=1)"),),
            (r"dropout",),
            "Humbatova 2020: wrong layer, dropout at the output",
        ),
        Fault(
            "features by .data",
            "cut",
            (("x = self.dropout(torch.flatten(x, 1))", "x = self.dropout(torch.flatten(x.data, 1))"),),
            (r"\.data", r"conv1", r"conv2", r"bn1", r"bn2", r"detach"),
            "PyTorch forum: .data left over from old versions",
        ),
        Fault(
            "pixels from 0 to 255 into a plain net",
            "input scale",
            (
                ("return (image - 0.2) / 0.35, self.y[index]", "return 255 * image, self.y[index]"),
                ("self.bn1(self.conv1(x))", "self.conv1(x)"),
                ("self.bn2(self.conv2(x))", "self.conv2(x)"),
            ),
            (r"conv1", r"\bimages\b", r"\(32, 1, 8, 8\)"),
            "Karpathy: unnormalised data; Humbatova 2020: missing preprocessing; UMLAUT: input not normalised",
        ),
    ),
)

LESIONS = Program(
    "mask of a blob",
    "segmentation",
    """
import torch
from torch import nn

torch.manual_seed(9)

def scans(n):
    grid = torch.arange(12.0)
    cx, cy = torch.randint(3, 9, (2, n, 1, 1)).float()
    blob = torch.exp(-((grid[None, None, :] - cx) ** 2 + (grid[None, :, None] - cy) ** 2) / 6)
    return (blob + 0.2 * torch.randn(n, 12, 12)).unsqueeze(1), (blob > 0.4).float().unsqueeze(1)

class DoubleConv(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(c_in, c_out, 3, padding=1), nn.GroupNorm(2, c_out), nn.LeakyReLU(0.1),
        )

    def forward(self, x):
        return self.block(x)

class TinyUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = DoubleConv(1, 8)
        self.pool = nn.MaxPool2d(2)
        self.bottom = DoubleConv(8, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.merge = DoubleConv(16, 8)
        self.final = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        skip = self.down(x)
        x = self.up(self.bottom(self.pool(skip)))
        x = self.merge(torch.cat([skip, x], dim=1))
        return self.final(x)

unet = TinyUNet()
bce = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(unet.parameters(), lr=1e-2)

def dice(logits, mask):
    p = logits.sigmoid()
    return 1 - 2 * (p * mask).sum() / (p.sum() + mask.sum() + 1e-6)
""",
    """
scan, mask = scans(8)
logits = unet(scan)
loss = bce(logits, mask) + dice(logits, mask)
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    faults=(
        Fault(
            "sigmoid before BCEWithLogitsLoss",
            "loss input",
            (("return self.final(x)", "return torch.sigmoid(self.final(x))"),),
            (r"sigmoid", r"final"),
            "PyTorch forum: BCEWithLogitsLoss has the sigmoid in it; Humbatova 2020: wrong activation",
        ),
        Fault(
            "dice of thresholded predictions alone",
            "no gradient",
            (
                ("loss = bce(logits, mask) + dice(logits, mask)", "loss = dice(logits, mask)"),
                ("p = logits.sigmoid()\n", "p = (logits.sigmoid() > 0.5).float()\n"),
            ),
            (r"\bgt\b", r"logits\.sigmoid\(\) >", r"\bdice\b"),
            "Stack Overflow: dice loss of a binary mask, does not require grad",
        ),
        Fault(
            "a row of the activation set to zero",
            "inplace",
            (
                ("        skip = self.down(x)\n", "        skip = torch.sigmoid(self.down(x))\n"),
                ("        return self.final(x)\n", "        skip[:, :, 0] = 0\n        return self.final(x)\n"),
            ),
            (r"sigmoid", r"skip", r"setitem", r"copy_", r"fill_"),
            "PyTorch forum: one of the variables needed for gradient computation has been modified by an inplace "
            "operation",
        ),
        Fault(
            "upsampling path is never joined",
            "unused",
            (("torch.cat([skip, x], dim=1)", "torch.cat([skip, skip], dim=1)"),),
            (r"bottom", r"\bup\b"),
            "Humbatova 2020: wrong layer connections; PyTorch forum: parameters whose grad is None",
        ),
        Fault(
            "loss wrapped in a new Variable",
            "cut",
            (
                (
                    "optimizer.zero_grad()\nloss.backward()",
                    "optimizer.zero_grad()\nloss = torch.autograd.Variable(loss.data, requires_grad=True)\n"
                    "loss.backward()",
                ),
            ),
            (r"Variable", r"\.data", r"detach"),
            "PyTorch forum: Variable(loss.data, requires_grad=True) to silence the error",
        ),
        Fault(
            "every image its own loss, kept in a list",
            "kept graphs",
            (
                ("bce = nn", "losses = []\nbce = nn"),
                ("optimizer.step()", "optimizer.step()\nlosses.append(loss)"),
            ),
            (r"\blosses\b",),
            "PyTorch issue 12664 and FAQ: lists of losses keep the graphs",
            LOOPS,
        ),
        Fault(
            "learning rate of 30 for Adam",
            "rate too large",
            (("lr=1e-2", "lr=30.0"),),
            (r"\blr\b", r"Adam"),
            "DeepFD: learning rate too high",
            LOOPS,
        ),
    ),
)

DIGITS = Program(
    "autoencoder of strokes",
    "autoencoder",
    """
import torch
from torch import nn, optim

torch.manual_seed(10)
basis = (torch.rand(5, 64) > 0.7).float()

def get_batch(size=32):
    code = (torch.rand(size, 5) > 0.6).float()
    return (code @ basis).clamp(0, 1)

encoder = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 8), nn.Tanh())
decoder = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 64), nn.Sigmoid())
autoencoder = nn.Sequential(encoder, decoder)
criterion = nn.BCELoss()
optimizer = optim.Adam(autoencoder.parameters(), lr=8e-3, weight_decay=1e-6)
""",
    """
x = get_batch()
reconstruction = autoencoder(x)
loss = criterion(reconstruction, x)
""",
    """
loss.backward()
optimizer.step()
optimizer.zero_grad()
""",
    faults=(
        Fault(
            "only the encoder is optimised",
            "no optimizer",
            (("optim.Adam(autoencoder.parameters()", "optim.Adam(encoder.parameters()"),),
            (r"decoder", r"\b1\.0", r"\b1\.2"),
            "PyTorch forum: two networks, one optimizer; pytest-torch: coverage of the optimizer",
        ),
        Fault(
            "biases deep in the tails",
            "dead units",
            (
                (
                    "autoencoder = nn.Sequential(encoder, decoder)\n",
                    "autoencoder = nn.Sequential(encoder, decoder)\n"
                    "encoder[0].bias.data.fill_(12.0)\nencoder[2].bias.data.fill_(-9.0)\n",
                ),
            ),
            (r"tanh", r"encoder", r"\b0\.0", r"\b0\.2", r"\b0\.1", r"\b0\.3"),
            "DeepLocalize, AUTOTRAINER: saturated activation",
        ),
        Fault(
            "weights drawn with deviation 15",
            "initialization",
            (
                (
                    "autoencoder = nn.Sequential(encoder, decoder)\n",
                    "autoencoder = nn.Sequential(encoder, decoder)\n"
                    "for p in autoencoder.parameters():\n    nn.init.normal_(p, std=15.0)\n",
                ),
            ),
            (r"encoder", r"\b0\.0\b", r"> 0 \(Linear", r"\b0\.weight"),
            "Humbatova 2020: wrong weights initialisation; DeepFD: initialisation",
        ),
        Fault(
            "two layers of the encoder without a nonlinearity",
            "no activation",
            (
                (
                    "nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 8), nn.Tanh()",
                    "nn.Linear(64, 32), nn.Linear(32, 8), nn.Tanh()",
                ),
            ),
            (r"encoder", r"\b0\.[01]\b", r"> [01] \(Linear", r"\b[01]\.weight"),
            "Humbatova 2020: missing activation function; DeepFD: layers",
        ),
        Fault(
            "reconstruction is the target",
            "target",
            (("loss = criterion(reconstruction, x)", "loss = nn.functional.mse_loss(reconstruction, autoencoder(x))"),),
            (r"mse", r"autoencoder\(x\)"),
            "Humbatova 2020: wrong labels; the target follows the parameters",
        ),
        Fault(
            "zeroed between backward and step",
            "early call",
            (
                (
                    "loss.backward()\noptimizer.step()\noptimizer.zero_grad()",
                    "loss.backward()\noptimizer.zero_grad()\noptimizer.step()",
                ),
            ),
            (r"zero_grad",),
            "PyTorch forum: zero_grad after backward; Islam 2019: API misuse",
        ),
        Fault(
            "penalty of all weights, larger than the loss",
            "regularization",
            (
                (
                    "loss = criterion(reconstruction, x)",
                    "loss = criterion(reconstruction, x) + 2.0 * sum(p.abs().sum() for p in autoencoder.parameters())",
                ),
            ),
            (r"\babs\b", r"penalty"),
            "Humbatova 2020: regularisation; Stack Overflow: L1 penalty that is larger than the loss",
        ),
    ),
)

FLOWERS = Program(
    "new head for a trained body",
    "fine-tuning",
    """
import copy
import torch
import torch.nn as nn

torch.manual_seed(11)

class Backbone(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.layer1 = nn.Sequential(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        x = self.layer1(self.stem(x))
        return self.fc(x.mean(dim=(2, 3)))

tints = torch.randn(3, 3, 1, 1)
kinds = torch.arange(96) % 3
photos = 0.5 * torch.randn(96, 3, 8, 8) + tints[kinds]

resnet = Backbone(10)
for parameter in resnet.parameters():
    parameter.requires_grad = False
resnet.fc = nn.Linear(16, 3)
resnet.eval()
loss_function = nn.CrossEntropyLoss(label_smoothing=0.05)
optimizer = torch.optim.SGD(resnet.fc.parameters(), lr=0.5, momentum=0.9)
""",
    """
batch = torch.randperm(96)[:32]
scores = resnet(photos[batch])
loss = loss_function(scores, kinds[batch])
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
correct = (scores.argmax(1) == kinds[batch]).sum().item()
""",
    faults=(
        Fault(
            "head replaced after the optimizer was made",
            "no optimizer",
            (
                ("resnet.fc = nn.Linear(16, 3)\n", "resnet.fc.requires_grad_(True)\n"),
                ("momentum=0.9)\n", "momentum=0.9)\nresnet.fc = nn.Linear(16, 3)\n"),
            ),
            (r"\bfc\b",),
            "PyTorch tutorials 2522 and forum: the optimizer holds the old head",
        ),
        Fault(
            "the head is frozen too",
            "frozen",
            (
                (
                    "for parameter in resnet.parameters():\n    parameter.requires_grad = False\n"
                    "resnet.fc = nn.Linear(16, 3)\n",
                    "resnet.fc = nn.Linear(16, 3)\nfor parameter in resnet.stem.parameters():\n"
                    "    parameter.requires_grad = True\n"
                    "resnet.fc.requires_grad_(False)\nresnet.layer1.requires_grad_(False)\n",
                ),
                ("torch.optim.SGD(resnet.fc.parameters()", "torch.optim.SGD(resnet.parameters()"),
            ),
            (r"\bfc\b",),
            "lightning 19955: which parameters are trained; TrainCheck",
        ),
        Fault(
            "frozen batch norm that goes on counting",
            "frozen but changing",
            (("resnet.eval()\n", "resnet.train()\n"),),
            (r"stem", r"layer1", r"running", r"BatchNorm", r"batch_norm"),
            "pytorch 66073, virtex 16: a frozen body whose batch norm statistics change",
        ),
        Fault(
            "smoothing hides the labels",
            "target",
            (("label_smoothing=0.05", "label_smoothing=0.95"),),
            (r"smoothing", r"cross_entropy"),
            "Humbatova 2020: wrong loss parameter; confidence and smoothing confused",
        ),
        Fault(
            "labels shuffled apart from the photos",
            "none found",
            (("scores = resnet(photos[batch])", "scores = resnet(photos[torch.randperm(96)[:32]])"),),
            (r"loss_function", r"cross_entropy"),
            "Humbatova 2020: training data, wrong labels; Karpathy: data and labels out of step",
            LOOPS,
        ),
    ),
)

RESIDUAL = Program(
    "stack of residual blocks",
    "image classifier",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(12)
prototypes = torch.randn(5, 1, 6, 6)

def sample(n):
    y = torch.randint(5, (n,))
    return prototypes[y] + 1.5 * torch.randn(n, 1, 6, 6), y

class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return x + self.conv(F.relu(self.norm(x)))

class ResNet(nn.Module):
    def __init__(self, depth=6, channels=8):
        super().__init__()
        self.embed = nn.Conv2d(1, channels, 3, padding=1)
        self.body = nn.Sequential(*[Block(channels) for _ in range(depth)])
        self.head = nn.Linear(channels * 36, 5)

    def forward(self, x):
        x = self.body(self.embed(x))
        return self.head(x.flatten(1))

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
resnet = ResNet().to(device)
opt = torch.optim.SGD(resnet.parameters(), lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-4)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=80)
""",
    """
x, y = sample(24)
logits = resnet(x.to(device))
loss = F.cross_entropy(logits, y.to(device))
""",
    """
opt.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(resnet.parameters(), 10.0)
opt.step()
cosine.step()
""",
    faults=(
        Fault(
            "channels first, then the rows",
            "wrong dimension",
            (("return self.head(x.flatten(1))", "return self.head(x.permute(1, 0, 2, 3).reshape(len(x), -1))"),),
            (r"permute", r"reshape"),
            "Humbatova 2020: wrong tensor shape; Stack Overflow: reshape that mixes the rows of a batch",
        ),
        Fault(
            "schedule before the optimizer",
            "early call",
            (
                ("opt.zero_grad()\nloss", "opt.zero_grad()\ncosine.step()\nloss"),
                ("opt.step()\ncosine.step()", "opt.step()"),
            ),
            (r"cosine", r"schedul", r"lr_scheduler"),
            "accelerate 641, PyTorch's warning: lr_scheduler.step() before optimizer.step()",
        ),
        Fault(
            "clipped before backward",
            "early call",
            (
                (
                    "loss.backward()\nnn.utils.clip_grad_norm_(resnet.parameters(), 10.0)\n",
                    "nn.utils.clip_grad_norm_(resnet.parameters(), 10.0)\nloss.backward()\n",
                ),
            ),
            (r"clip",),
            "transformers 1563: clip in the wrong place",
        ),
        Fault(
            "residual branches that double, without norm",
            "exploding",
            (
                ("return x + self.conv(F.relu(self.norm(x)))", "return 4 * x + 4 * self.conv(F.relu(x))"),
                ("depth=6", "depth=14"),
            ),
            (r"body", r"\bconv\b", r"Block"),
            "AUTOTRAINER, DeepDiagnosis: exploding tensor; Humbatova 2020: missing normalisation layer",
        ),
        Fault(
            "one block sits on a plain dict",
            "unregistered",
            (
                ("self.head = nn.Linear(channels * 36, 5)", 'self.parts = {"head": nn.Linear(channels * 36, 5)}'),
                ("return self.head(x.flatten(1))", 'return self.parts["head"](x.flatten(1))'),
            ),
            (r"parts", r"head"),
            "PyTorch forum: layers in a dict instead of ModuleDict",
        ),
        Fault(
            "Keras's momentum in PyTorch's batch norm",
            "normalization",
            (("self.norm = nn.BatchNorm2d(channels)", "self.norm = nn.BatchNorm2d(channels, momentum=0.999)"),),
            (r"\bnorm\b", r"BatchNorm"),
            "Stack Overflow: momentum of batch norm means the contrary in Keras; Islam 2019: wrong API argument",
        ),
    ),
)

PROGRAMS = [SHAPES, LESIONS, DIGITS, FLOWERS, RESIDUAL]
