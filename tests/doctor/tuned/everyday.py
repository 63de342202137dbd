"""Faults of everyday programs: flowers of a pretrained body, spoken words, passengers, heartbeats, sets, a reader."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "flowers with a pretrained body",
        "fine-tuning",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(193)
def pictures(n, classes, shift):
    y = torch.randint(0, classes, (n,))
    stripes = torch.sin(torch.arange(12) * (1 + y[:, None] + shift) * 0.5)
    return stripes[:, None, None, :] + 0.4 * torch.randn(n, 1, 12, 12), y

class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.layer2 = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AvgPool2d(6))
        self.fc = nn.Linear(16, 4)
    def forward(self, x):
        return self.fc(self.layer2(self.layer1(x)).flatten(1))

model = Backbone()
pretrain = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(40):
    xb, yb = pictures(64, 4, 0)
    pretrain.zero_grad(); F.cross_entropy(model(xb), yb).backward(); pretrain.step()

for param in model.parameters():
    param.requires_grad = False
    param.grad = None
model.fc = nn.Linear(16, 3)
model.layer1.eval(); model.layer2.eval()
params_to_update = [p for p in model.parameters() if p.requires_grad]
optimizer_ft = torch.optim.SGD(params_to_update, lr=0.1, momentum=0.9)
exp_lr_scheduler = torch.optim.lr_scheduler.StepLR(optimizer_ft, step_size=30, gamma=0.1)
criterion = nn.CrossEntropyLoss()
""",
        forward="""
inputs, labels = pictures(32, 3, 0.4)
outputs = model(inputs)
loss = criterion(outputs, labels)
""",
        update="""
optimizer_ft.zero_grad()
loss.backward()
optimizer_ft.step()
exp_lr_scheduler.step()
""",
        steps=60,
        faults=(
            Fault(
                "the new head comes after the optimizer",
                "no optimizer",
                (
                    ("model.fc = nn.Linear(16, 3)\n", "model.fc.requires_grad_(True)\n"),
                    (
                        "criterion = nn.CrossEntropyLoss()",
                        "model.fc = nn.Linear(16, 3)\ncriterion = nn.CrossEntropyLoss()",
                    ),
                ),
                where=("fc",),
                source="PyTorch forum, the layer is replaced after the optimizer was made; TrainCheck",
            ),
            Fault(
                "the head of the flowers is frozen with the body",
                "no gradient",
                (
                    ("model.fc = nn.Linear(16, 3)\n", ""),
                    (
                        "for param in model.parameters():\n    param.requires_grad",
                        "model.fc = nn.Linear(16, 3)\nfor param in model.parameters():\n    param.requires_grad",
                    ),
                    (
                        "params_to_update = [p for p in model.parameters() if p.requires_grad]",
                        "params_to_update = list(model.parameters())",
                    ),
                ),
                where=("fc", "requires_grad"),
                source="Stack Overflow, all layers are frozen after the head was replaced; PyTorch transfer tutorial",
            ),
            Fault(
                "statistics of the frozen body follow the flowers",
                "frozen but changing",
                (("model.layer1.eval(); model.layer2.eval()\n", ""),),
                where=("layer1", "layer2", "BatchNorm", "running"),
                source="PyTorch forum, frozen BatchNorm layers change in train(); Keras fine-tuning guide",
                hosts=LOOPS,
            ),
            Fault(
                "the rate falls to nothing within an epoch",
                "rate too small",
                (("step_size=30, gamma=0.1", "step_size=1, gamma=0.1"),),
                where=(r"\blr\b", "rate", "schedule"),
                source="PyTorch forum, StepLR is stepped in each batch; Humbatova 2020",
                hosts=LOOPS,
            ),
            Fault(
                "features in the rows of the batch",
                "wrong dimension",
                (
                    (
                        "self.layer2(self.layer1(x)).flatten(1)",
                        "self.layer2(self.layer1(x)).permute(1, 2, 3, 0).reshape(-1, 16)",
                    ),
                ),
                where=("permute", "reshape", "fc"),
                source="PyTorch forum, permute and reshape mix the samples of a batch; NeuraLint",
            ),
        ),
    ),
    Program(
        "spoken words in one dimension",
        "multi-label",
        setup="""
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(197)
RATE, WORDS = 64, 3
clock = torch.arange(RATE) / RATE

def record(n):
    present = (torch.rand(n, WORDS) < 0.4).float()
    tones = torch.stack([torch.sin(2 * torch.pi * f * clock) for f in (4, 9, 17)])
    wave = present @ tones + 0.3 * torch.randn(n, RATE)
    return wave.unsqueeze(1), present

class M3(nn.Module):
    def __init__(self, channels=12):
        super().__init__()
        self.conv1 = nn.Conv1d(1, channels, 15, stride=2, padding=7)
        self.conv2 = nn.Conv1d(channels, channels, 5, padding=2)
        self.drop = nn.Dropout(0.1)
        self.fc = nn.Linear(2 * channels, WORDS)
    def forward(self, wave):
        h = F.relu(self.conv1(wave))
        h = F.relu(self.conv2(h))
        h = torch.cat([h.amax(-1), h.mean(-1)], 1)
        return self.fc(self.drop(h))

net = M3()
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
def fit_batch(wave, target):
    optimizer.zero_grad()
    value = criterion(net(wave), target)
    return value
""",
        forward="""
loss = fit_batch(*record(48))
""",
        update="""
loss.backward()
optimizer.step()
""",
        steps=70,
        faults=(
            Fault(
                "a loss of probabilities gets scores",
                "output activation",
                (("criterion = nn.BCEWithLogitsLoss()", "criterion = nn.BCELoss()"),),
                where=("binary_cross_entropy", "BCELoss", "criterion"),
                source="Stack Overflow, all elements of input should be between 0 and 1; PyTorch forum",
            ),
            Fault(
                "softmax over words that can be spoken together",
                "loss input",
                (("return self.fc(self.drop(h))", "return torch.softmax(self.fc(self.drop(h)), dim=1)"),),
                where=("softmax", "fc"),
                source="Stack Overflow, softmax in a multi-label task; Humbatova 2020, Wrong activation",
            ),
            Fault(
                "biases so low that no unit is ever on",
                "dead units",
                (
                    (
                        "        self.drop = nn.Dropout(0.1)\n",
                        "        self.drop = nn.Dropout(0.1)\n        nn.init.constant_(self.conv2.bias, -30.0)\n",
                    ),
                ),
                where=("conv2", "relu"),
                source="DeepFD, dead ReLU; DeepLocalize; Lu 2019, Dying ReLU",
            ),
            Fault(
                "nine of ten features are dropped before the output",
                "dropout",
                (("self.drop = nn.Dropout(0.1)", "self.drop = nn.Dropout(0.9)"),),
                where=("drop",),
                source="Humbatova 2020, Wrong layer arguments; Stack Overflow, keep_prob of TensorFlow is 1 - p",
            ),
            Fault(
                "the words are rolled by one batch",
                "data",
                (("return wave.unsqueeze(1), present", "return wave.unsqueeze(1), present.roll(1, 0)"),),
                where=("present", "target", "label"),
                source="Humbatova 2020, Wrong labels for training data; Stack Overflow, X and y out of step",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "passengers of a ship",
        "classifier",
        setup="""
import numpy as np
import torch
import torch.nn as nn

SEED = 199
np.random.seed(SEED); torch.manual_seed(SEED)
n = 500
sex, pclass = np.random.randint(0, 2, n), np.random.randint(1, 4, n)
age, fare = np.random.uniform(1, 80, n), np.random.exponential(30, n)
survived = (np.random.rand(n) < 1 / (1 + np.exp(-(2.5 * sex - 1.2 * pclass + 1.5 - 0.03 * (age - 30))))).astype(int)
train_X = np.column_stack([sex, pclass, age, fare]).astype("float32")
train_X = (train_X - train_X.mean(0)) / train_X.std(0)
X_tensor, y_tensor = torch.from_numpy(train_X), torch.from_numpy(survived)

model = nn.Sequential()
model.add_module("fc1", nn.Linear(4, 32))
model.add_module("act1", nn.ReLU())
model.add_module("fc2", nn.Linear(32, 16))
model.add_module("act2", nn.ReLU())
model.add_module("out", nn.Linear(16, 2))

loss_func = nn.CrossEntropyLoss()
optim = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.999))
""",
        forward="""
start = (step * 50) % 500
batch_x, batch_y = X_tensor[start:start + 50], y_tensor[start:start + 50]
y_hat = model(batch_x)
loss = loss_func(y_hat, batch_y)
""",
        update="""
optim.zero_grad()
loss.backward()
optim.step()
""",
        steps=100,
        faults=(
            Fault(
                "one output and cross entropy",
                "loss input",
                (
                    ("nn.Linear(16, 2)", "nn.Linear(16, 1)"),
                    ("loss = loss_func(y_hat, batch_y)", "loss = loss_func(y_hat, batch_y.float().unsqueeze(1))"),
                ),
                where=("cross_entropy", "out", "loss_func"),
                source="Stack Overflow, CrossEntropyLoss of one output is always 0; Humbatova 2020",
            ),
            Fault(
                "the predicted class is compared",
                "no gradient",
                (
                    (
                        "loss = loss_func(y_hat, batch_y)",
                        "loss = nn.functional.mse_loss(y_hat.argmax(1).float(), batch_y.float())",
                    ),
                ),
                where=("argmax",),
                source="Stack Overflow, argmax in the loss has no gradient",
            ),
            Fault(
                "log of softmax of softmax",
                "loss input",
                (
                    (
                        'model.add_module("out", nn.Linear(16, 2))\n',
                        'model.add_module("out", nn.Linear(16, 2))\nmodel.add_module("prob", nn.Softmax(dim=1))\n',
                    ),
                ),
                where=("softmax", "prob", "cross_entropy"),
                source="Islam 2019; Humbatova 2020, redundant softmax before CrossEntropyLoss",
            ),
            Fault(
                "the output is rectified",
                "output activation",
                (
                    (
                        'model.add_module("out", nn.Linear(16, 2))\n',
                        'model.add_module("out", nn.Linear(16, 2))\nmodel.add_module("act3", nn.ReLU())\n',
                    ),
                ),
                where=("relu", "act3"),
                source="DeepFD; Stack Overflow, ReLU before CrossEntropyLoss",
            ),
            Fault(
                "negative log likelihood of scores",
                "loss input",
                (("loss_func = nn.CrossEntropyLoss()", "loss_func = nn.NLLLoss()"),),
                where=("nll_loss", "loss_func"),
                source="Stack Overflow, NLLLoss without log_softmax is negative; Humbatova 2020",
            ),
            Fault(
                "betas of adam are swapped",
                "none found",
                (("lr=0.01, betas=(0.9, 0.999)", "lr=0.01, betas=(0.999, 0.9)"),),
                where=("betas", "beta", "momentum"),
                source="Humbatova 2020, Suboptimal optimizer parameters",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "heartbeats through a bottleneck",
        "autoencoder",
        setup="""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader

torch.manual_seed(211)
t = torch.linspace(0, 1, 32)
def beat(n):
    at = 0.3 + 0.4 * torch.rand(n, 1)
    width = 0.03 + 0.05 * torch.rand(n, 1)
    return torch.exp(-((t - at) / width) ** 2) - 0.3 * torch.exp(-((t - at - 0.15) / 0.05) ** 2)

ecg = beat(512)
ecg = (ecg - ecg.mean()) / ecg.std()

class ECGAutoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 4))
        self.decode = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 32))
    def forward(self, x):
        return self.decode(self.encode(x))

def batches():
    while True:
        yield from DataLoader(ecg, batch_size=64, shuffle=True)

feed = batches()
ae = ECGAutoencoder()
criterion = nn.L1Loss(reduction="mean")
optimizer = torch.optim.SGD(ae.parameters(), lr=0.3, momentum=0.9)
""",
        forward="""
x = next(feed)
reconstruction = ae(x)
loss = criterion(reconstruction, x)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=120,
        faults=(
            Fault(
                "standardised beats of a sigmoid",
                "output activation",
                (
                    (
                        "nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 32))",
                        "nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 32), nn.Sigmoid())",
                    ),
                ),
                where=("sigmoid", "decode"),
                source="Islam 2019; Humbatova 2020, Wrong activation of the last layer",
            ),
            Fault(
                "the sum over a batch of beats",
                "rate too large",
                (('nn.L1Loss(reduction="mean")', 'nn.L1Loss(reduction="sum")'),),
                where=("sum", r"\blr\b", "rate"),
                source="Stack Overflow, reduction='sum' needs a smaller learning rate; Humbatova 2020",
                hosts=LOOPS,
            ),
            Fault(
                "the reconstruction is compared with itself",
                "target",
                (("loss = criterion(reconstruction, x)", "loss = criterion(reconstruction, reconstruction.detach())"),),
                where=("target", "reconstruction", "l1_loss"),
                source="Humbatova 2020, Wrong target; Stack Overflow, the loss of an autoencoder is 0",
            ),
            Fault(
                "encoder under no_grad",
                "cut",
                (
                    (
                        "return self.decode(self.encode(x))",
                        "with torch.no_grad():\n            code = self.encode(x)\n        return self.decode(code)",
                    ),
                ),
                where=("encode", "no_grad"),
                source="PyTorch forum, no_grad around a part that should learn; TrainCheck",
            ),
            Fault(
                "weights decay to nothing",
                "regularization",
                (("lr=0.3, momentum=0.9", "lr=0.3, momentum=0.9, weight_decay=0.5"),),
                where=("weight_decay", "decay", "encode"),
                source="Humbatova 2020, Wrong regularisation; Stack Overflow, weight_decay too large",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "clouds of points as sets",
        "point cloud",
        setup="""
import math
import torch
import torch.nn as nn

torch.manual_seed(223)
def clouds(n, points=40):
    label = torch.randint(0, 3, (n,))
    a = 2 * math.pi * torch.rand(n, points)
    flat = torch.stack([a.cos(), a.sin()], -1)
    square = (2 * torch.rand(n, points, 2) - 1)
    line = torch.stack([2 * torch.rand(n, points) - 1, 0.1 * torch.randn(n, points)], -1)
    options = torch.stack([flat, square, line])
    return options[label, torch.arange(n)] + 0.03 * torch.randn(n, points, 2), label

class PointNet(nn.Module):
    def __init__(self, c=48):
        super().__init__()
        self.mlp1 = nn.Sequential(nn.Linear(2, c), nn.ReLU(), nn.Linear(c, c), nn.ReLU())
        self.mlp2 = nn.Sequential(nn.Linear(c, c), nn.ReLU(), nn.Linear(c, 3))
    def forward(self, cloud):
        per_point = self.mlp1(cloud)
        pooled = per_point.max(dim=1).values
        return self.mlp2(pooled)

net = PointNet()
ce = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
@torch.no_grad()
def accuracy(n=40):
    net.eval()
    x, y = clouds(n)
    hits = (net(x).argmax(1) == y).float().mean().item()
    net.train()
    return hits
scores = []
""",
        forward="""
cloud, label = clouds(40)
loss = ce(net(cloud), label)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
if step % 20 == 0:
    scores.append(accuracy())
""",
        steps=80,
        faults=(
            Fault(
                "pooled over the clouds",
                "wrong dimension",
                (("per_point.max(dim=1).values", "per_point.max(dim=0).values"),),
                where=("max", "dim", "pooled"),
                source="NeuraLint; Stack Overflow, max over the batch instead of the points",
            ),
            Fault(
                "no activation inside the first net",
                "no activation",
                (
                    (
                        "nn.Sequential(nn.Linear(2, c), nn.ReLU(), nn.Linear(c, c), nn.ReLU())",
                        "nn.Sequential(nn.Linear(2, c), nn.Linear(c, c), nn.ReLU())",
                    ),
                ),
                where=("mlp1", "linear"),
                source="DeepFD, missing activation; Humbatova 2020, Missing activation function",
            ),
            Fault(
                "a phase whose name is written otherwise",
                "no gradient",
                (
                    ("scores = []\n", 'scores = []\nphase = "Train"\n'),
                    (
                        "loss = ce(net(cloud), label)",
                        'with torch.set_grad_enabled(phase == "train"):\n    loss = ce(net(cloud), label)',
                    ),
                ),
                where=("grad", "no_grad", "set_grad_enabled"),
                source="PyTorch transfer tutorial, set_grad_enabled(phase == 'train')",
                hosts=LOOPS,
            ),
            Fault(
                "all weights have one value",
                "initialization",
                (
                    (
                        "net = PointNet()\n",
                        "net = PointNet()\nfor w in net.parameters():\n    nn.init.constant_(w, 0.1)\n",
                    ),
                ),
                where=("mlp1", "mlp2", "weight", "constant_"),
                source="DeepFD, improper weight initialization; Humbatova 2020, Wrong weights initialisation",
            ),
            Fault(
                "a rate of a millionth",
                "rate too small",
                (("lr=3e-3", "lr=3e-9"),),
                where=(r"\blr\b", "rate"),
                source="DeepFD, learning rate too low; Humbatova 2020, Suboptimal learning rate",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "reader that remembers the first letter",
        "recurrent",
        setup="""
import torch
from torch import nn

torch.manual_seed(227)
class Memory(nn.Module):
    def __init__(self, n_symbols=6, hidden=32):
        super().__init__()
        self.embed = nn.Embedding(n_symbols, 12)
        self.cell = nn.LSTMCell(12, hidden)
        self.answer = nn.Linear(hidden, 4)
        with torch.no_grad():
            self.cell.bias_ih[hidden:2 * hidden].fill_(1.0)
    def initial(self, n):
        return torch.zeros(n, 32), torch.zeros(n, 32)
    def forward(self, symbols):
        state = self.initial(len(symbols))
        for column in symbols.T:
            state = self.cell(self.embed(column), state)
        return self.answer(state[0])

def lessons(n, length=8):
    symbols = torch.randint(4, 6, (n, length))
    symbols[:, 0] = torch.randint(0, 4, (n,))
    return symbols, symbols[:, 0].clone()

reader = Memory()
opt = torch.optim.RMSprop(reader.parameters(), lr=5e-3)
""",
        forward="""
symbols, first = lessons(40)
loss = nn.functional.cross_entropy(reader(symbols), first)
""",
        update="""
opt.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
opt.step()
""",
        steps=80,
        faults=(
            Fault(
                "the state is kept as arrays between the letters",
                "cut",
                (
                    (
                        "state = self.cell(self.embed(column), state)\n",
                        "state = self.cell(self.embed(column), state)\n"
                        "            state = [torch.from_numpy(s.detach().numpy()) for s in state]\n",
                    ),
                ),
                where=("state", "numpy", "detach", "embed", "cell"),
                source="Stack Overflow, hidden states of a policy are stored as numpy; PyTorch forum",
            ),
            Fault(
                "the state is detached at each letter",
                "cut",
                (
                    (
                        "state = self.cell(self.embed(column), state)",
                        "state = self.cell(self.embed(column), tuple(s.detach() for s in state))",
                    ),
                ),
                where=("detach", "state", "cell"),
                source="PyTorch forum, repackage_hidden in each time step; TrainCheck",
            ),
            Fault(
                "the answer is of the first state",
                "unused",
                (("return self.answer(state[0])", "return self.answer(self.initial(len(symbols))[0])"),),
                where=("embed", "cell", "state"),
                source="Humbatova 2020, Wrong tensor is used; PyTorch forum, find_unused_parameters",
            ),
            Fault(
                "all lessons have the same letter",
                "data",
                (("symbols[:, 0] = torch.randint(0, 4, (n,))", "symbols[:, 0] = 2"),),
                where=("first", "target", "class"),
                source="Humbatova 2020, Unbalanced training data; DEFault",
                hosts=LOOPS,
            ),
            Fault(
                "norms are clipped to nothing before plain descent",
                "rate too small",
                (
                    (
                        "torch.optim.RMSprop(reader.parameters(), lr=5e-3)",
                        "torch.optim.SGD(reader.parameters(), lr=5e-3)",
                    ),
                    ("reader.parameters(), 1.0)", "reader.parameters(), 1e-6)"),
                ),
                where=("clip", "rate", r"\blr\b", "norm"),
                source="PyTorch forum, clip_grad_norm_ with a tiny norm; Humbatova 2020, Wrong gradient clipping",
                hosts=LOOPS,
            ),
        ),
    ),
)
