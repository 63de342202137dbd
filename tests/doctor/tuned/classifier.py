"""Faults of classifiers with linear layers."""

from tests.doctor.program import Fault, Host, Program

ONE_CELL: tuple[Host, ...] = ("whole", "loop", "step", "function")
LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "mlp classifier",
        "classifier",
        setup="""
import torch
from torch import nn
torch.manual_seed(0)
x = torch.randn(64, 8)
y = (x[:, :2].sum(1) > 0).long() + (x[:, 2] > 0.5).long()
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
""",
        forward="""
out = model(x)
loss = criterion(out, y)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        faults=(
            Fault(
                "relu before cross_entropy",
                "output activation",
                (("nn.Linear(32, 3))", "nn.Linear(32, 3), nn.ReLU())"),),
                where=(r"\b5\b", "ReLU"),
                source="Humbatova 2020, Wrong activation function; Stack Overflow 55776436",
            ),
            Fault(
                "softmax before cross_entropy",
                "loss input",
                (("nn.Linear(32, 3))", "nn.Linear(32, 3), nn.Softmax(dim=1))"),),
                where=(r"\b5\b", "softmax"),
                source="Karpathy, most common mistakes: softmaxed outputs to a loss that expects raw logits",
            ),
            Fault(
                "no activation between the layers",
                "no activation",
                (("nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), ", "nn.Linear(32, 32), "),),
                where=(r"\b0\b", r"\b1\b", r"\b2\b", r"linear"),
                source="Humbatova 2020, Missing relu layer",
            ),
            Fault(
                "rate of 1e-7",
                "rate too small",
                (("lr=1e-2", "lr=1e-7"),),
                where=("rate", r"\blr\b", "optimizer"),
                source="Humbatova 2020, Suboptimal learning rate",
                hosts=LOOPS,
            ),
            Fault(
                "rate of 5",
                "rate too large",
                (("lr=1e-2", "lr=5"),),
                where=("rate", r"\blr\b", "optimizer"),
                source="Humbatova 2020, Suboptimal learning rate",
                hosts=LOOPS,
            ),
            Fault(
                "step is missing",
                "no step",
                (("optimizer.step()\n", ""),),
                where=(r"step\(\)", "optimizer"),
                source="Humbatova 2020, Missing API call",
            ),
            Fault(
                "loss is maximised",
                "sign",
                (("loss = criterion(out, y)", "loss = -criterion(out, y)"),),
                where=("neg", "loss"),
                source="Humbatova 2020, Wrong loss function calculation",
            ),
            Fault(
                "all rows are the mean row",
                "data",
                (("out = model(x)", "out = model(x.mean(0, keepdim=True).expand(64, 8))"),),
                where=("rows", "input", r"\bx\b"),
                source="Humbatova 2020, Training data quality",
            ),
            Fault(
                "penalty of 10 on all weights",
                "regularization",
                (
                    (
                        "loss = criterion(out, y)",
                        "penalty = sum(p.abs().sum() for p in model.parameters())\n"
                        "loss = criterion(out, y) + 10 * penalty",
                    ),
                ),
                where=("penalty", "abs", "loss"),
                source="Humbatova 2020, Suboptimal hyperparameters tuning (regularisation)",
            ),
            Fault(
                "epsilon of Adam is 1000",
                "rate too small",
                (("lr=1e-2", "lr=1e-2, eps=1e3"),),
                where=("rate", r"\blr\b", "optimizer", "eps", "update"),
                source="Humbatova 2020, Epsilon for Adam optimiser; Suboptimal hyperparameters tuning",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "spiral with a data loader",
        "classifier",
        setup="""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
t = torch.linspace(0.3, 1.0, 60)
points, labels = [], []
for k in range(2):
    angle = t * 5 + k * math.pi
    points.append(torch.stack([t * torch.sin(angle), t * torch.cos(angle)], dim=1))
    labels.append(torch.full((60,), k))
data = TensorDataset(torch.cat(points), torch.cat(labels).float())
loader = DataLoader(data, batch_size=40, shuffle=True)


class Net(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.fc1 = nn.Linear(2, hidden)
        self.drop = nn.Dropout(0.1)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, 1)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = self.drop(x)
        x = F.relu(self.fc2(x))
        return self.fc3(x)


net = Net()
net.train()
opt = torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9)
running_loss = 0.0
""",
        forward="""
for inputs, targets in loader:
    opt.zero_grad()
    logits = net(inputs).squeeze(1)
    loss = F.binary_cross_entropy_with_logits(logits, targets)
    loss.backward()
    opt.step()
    running_loss += loss.item()
""",
        update="""
accuracy = ((logits > 0) == (targets > 0.5)).float().mean().item()
""",
        steps=15,
        faults=(
            Fault(
                "sigmoid twice",
                "loss input",
                (("return self.fc3(x)", "return torch.sigmoid(self.fc3(x))"),),
                where=("sigmoid", "fc3"),
                source="Stack Overflow and PyTorch forum, sigmoid before BCEWithLogitsLoss; DeepFD, activation",
                hosts=ONE_CELL,
            ),
            Fault(
                "loss is summed with its graph",
                "kept graphs",
                (("running_loss += loss.item()", "running_loss += loss"),),
                where=("running_loss", "loss"),
                source="PyTorch FAQ: don't accumulate history across your training loop",
                hosts=LOOPS,
            ),
            Fault(
                "zero_grad is forgotten",
                "accumulated gradients",
                (("    opt.zero_grad()\n", ""),),
                where=("zero_grad", r"\bopt\b", "fc1"),
                source="Karpathy, most common mistakes: you forgot to .zero_grad() before .backward()",
                hosts=LOOPS,
            ),
            Fault(
                "zero_grad between backward and step",
                "early call",
                (
                    ("    opt.zero_grad()\n", ""),
                    ("    loss.backward()\n", "    loss.backward()\n    opt.zero_grad()\n"),
                ),
                where=("zero_grad", r"\bopt\b"),
                source="Humbatova 2020, Wrong position of API call",
                hosts=ONE_CELL,
            ),
            Fault(
                "dropout of 0.95",
                "dropout",
                (("nn.Dropout(0.1)", "nn.Dropout(0.95)"),),
                where=("drop",),
                source="Humbatova 2020, Wrong layer properties (dropout rate)",
                hosts=ONE_CELL,
            ),
            Fault(
                "eval mode",
                "eval mode",
                (("net.train()\n", "net.eval()\n"),),
                where=("eval", "drop", r"\bnet\b"),
                source="Karpathy, most common mistakes: you forgot to toggle train/eval mode for the net",
                hosts=ONE_CELL,
            ),
            Fault(
                "the second layer is never called",
                "unused",
                (("        x = F.relu(self.fc2(x))\n", ""),),
                where=("fc2",),
                source="Islam 2019, Structural bug: data flow; pytorch/tutorials 2522",
                hosts=ONE_CELL,
            ),
            Fault(
                "labels of -1 and 1",
                "target",
                (("torch.full((60,), k)", "torch.full((60,), 2 * k - 1)"),),
                where=("target", "binary_cross_entropy"),
                source="Humbatova 2020, Wrong labels for training data",
                hosts=ONE_CELL,
            ),
            Fault(
                "layers without relu in forward",
                "no activation",
                (
                    ("x = F.relu(self.fc1(x))", "x = self.fc1(x)"),
                    ("x = F.relu(self.fc2(x))", "x = self.fc2(x)"),
                ),
                where=("fc1", "fc2", "fc3", "linear"),
                source="Humbatova 2020, Missing relu layer; DeepFD, activation",
                hosts=ONE_CELL,
            ),
            Fault(
                "one hidden unit",
                "none found",
                (("hidden=64", "hidden=1"),),
                where=("fc1", "fc2", "loss"),
                source="Humbatova 2020, Suboptimal network structure",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "text classifier",
        "classifier",
        setup="""
import torch
from torch import nn

torch.manual_seed(2)
vocabulary, length, n = 30, 12, 90
tokens = torch.randint(1, vocabulary, (n, length))
topic = torch.arange(n) % 3
for row, which in enumerate(topic):
    tokens[row, : 5] = torch.randint(1, 8, (5,)) + 8 * which
order = torch.randperm(n)
tokens, topic = tokens[order], topic[order]
pretrained = torch.randn(vocabulary, 16)
class TextClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(pretrained, freeze=False)
        self.hidden = nn.Linear(16, 24)
        self.out = nn.Linear(24, 3)
        self.act = nn.Tanh()
        self.log_softmax = nn.LogSoftmax(dim=-1)

    def forward(self, ids):
        pooled = self.embedding(ids).mean(dim=1)
        scores = self.out(self.act(self.hidden(pooled)))
        return self.log_softmax(scores)

model = TextClassifier()
loss_fn = nn.NLLLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
batch_size = 30
""",
        forward="""
at = (step * batch_size) % n
ids, target = tokens[at:at + batch_size], topic[at:at + batch_size]
log_probs = model(ids)
loss = loss_fn(log_probs, target)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        faults=(
            Fault(
                "from_pretrained freezes",
                "frozen",
                (("from_pretrained(pretrained, freeze=False)", "from_pretrained(pretrained)"),),
                where=("embedding",),
                source="Humbatova 2020, Wrong usage of API (default of from_pretrained)",
            ),
            Fault(
                "nll_loss of scores",
                "loss input",
                (("return self.log_softmax(scores)", "return scores"),),
                where=("nll", "scores", r"\bout\b"),
                source="Humbatova 2020, Missing softmax layer",
            ),
            Fault(
                "softmax over the batch",
                "wrong dimension",
                (("nn.LogSoftmax(dim=-1)", "nn.LogSoftmax(dim=0)"),),
                where=("log_?softmax",),
                source="Humbatova 2020, Wrong layer properties; Stack Overflow, dim argument of softmax",
            ),
            Fault(
                "mean over the batch",
                "wrong dimension",
                ((".mean(dim=1)", ".mean(dim=0).mean(dim=0).expand(len(ids), 16)"),),
                where=("mean", "pooled"),
                source="Humbatova 2020, Wrong tensor shape; Karpathy's recipe: use backprop to chart dependencies",
            ),
            Fault(
                "sorted by class",
                "data",
                (("order = torch.randperm(n)", "order = torch.argsort(topic, stable=True)"),),
                where=("class", "batch", "target"),
                source="Humbatova 2020, Missing preprocessing step (shuffling)",
                hosts=LOOPS,
            ),
            Fault(
                "the hidden values become a list",
                "cut",
                (("self.act(self.hidden(pooled))", "torch.tensor(self.act(self.hidden(pooled)).tolist())"),),
                where=("tensor", "tolist", "hidden"),
                source="Zhang 2018, Confusion with computation model",
            ),
            Fault(
                "zero weights",
                "initialization",
                (
                    (
                        "        self.act = nn.Tanh()\n",
                        "        self.act = nn.Tanh()\n"
                        "        for layer in (self.hidden, self.out):\n"
                        "            nn.init.zeros_(layer.weight)\n",
                    ),
                ),
                where=("hidden", r"\bout\b"),
                source="Humbatova 2020, Wrong weights initialisation; Islam 2019, Initialization bug",
            ),
        ),
    ),
)
