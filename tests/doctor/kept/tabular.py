"""Rows and columns: classifiers and regressions."""

from tests.doctor.program import Fault, Program

LOOPS = ("whole", "loop", "function")

RINGS = Program(
    "three rings",
    "classifier",
    """
import math
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
labels = torch.arange(240) % 3
angle = 2 * math.pi * torch.rand(240)
radius = labels + 0.4 + 0.1 * torch.randn(240)
points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
dataset = TensorDataset(points, labels)
loader = DataLoader(dataset, batch_size=48, shuffle=True)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 32)
        self.fc2 = nn.Linear(32, 32)
        self.out = nn.Linear(32, 3)

    def forward(self, x):
        x = torch.relu(self.fc1(x))
        x = torch.relu(self.fc2(x))
        return self.out(x)

net = Net()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

def endless(batches):
    while True:
        yield from batches

feed = endless(loader)
""",
    """
inputs, targets = next(feed)
outputs = net(inputs)
loss = criterion(outputs, targets)
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    faults=(
        Fault(
            "softmax at the end of a net for CrossEntropyLoss",
            "loss input",
            (("return self.out(x)", "return torch.softmax(self.out(x), dim=1)"),),
            (r"softmax", r"\bout\b"),
            "Stack Overflow via Islam 2019: wrong loss and last layer; PyTorch forum: redundant softmax",
        ),
        Fault(
            "relu on the logits",
            "output activation",
            (("return self.out(x)", "return torch.relu(self.out(x))"),),
            (r"relu", r"\bout\b"),
            "Humbatova 2020: wrong type of activation function, last layer",
        ),
        Fault(
            "three layers without a nonlinearity",
            "no activation",
            (
                ("torch.relu(self.fc1(x))", "self.fc1(x)"),
                ("torch.relu(self.fc2(x))", "self.fc2(x)"),
            ),
            (r"fc1", r"fc2", r"\bout\b"),
            "Humbatova 2020: missing activation function; DeepFD: activation",
        ),
        Fault(
            "rate of 25",
            "rate too large",
            (("lr=0.1", "lr=25.0"),),
            (r"\blr\b", r"SGD"),
            "Humbatova 2020: suboptimal learning rate; DeepFD: learning rate",
            LOOPS,
        ),
        Fault(
            "no zero_grad",
            "accumulated gradients",
            (("optimizer.zero_grad()\n", ""),),
            (r"zero_grad", r"backward", r"fc1"),
            "Karpathy's common mistakes: you forgot to zero_grad; Humbatova 2020: API misuse",
            LOOPS,
        ),
        Fault(
            "ten batches are added and not divided",
            "accumulation",
            (
                (
                    "optimizer.zero_grad()\nloss.backward()\noptimizer.step()",
                    "loss.backward()\nif step % 10 == 9:\n    optimizer.step()\n    optimizer.zero_grad()",
                ),
            ),
            (r"backward\(\)", r"SGD", r"fc1", r"\bout\b"),
            "PyTorch forum: gradient accumulation without dividing the loss",
            LOOPS,
        ),
        Fault(
            "sorted rows, not shuffled",
            "data",
            (
                ("labels = torch.arange(240) % 3", "labels = torch.arange(240) // 80"),
                ("batch_size=48, shuffle=True", "batch_size=48"),
            ),
            (r"\btargets\b", r"cross_entropy", r"criterion"),
            "Humbatova 2020: training data, missing shuffling",
        ),
    ),
)

HOUSES = Program(
    "prices of houses",
    "regression",
    """
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(2)
features = torch.rand(256, 6) * torch.tensor([150.0, 5.0, 90.0, 1.0, 30.0, 12.0])
raw_price = 2.0 * features[:, 0] + 30 * features[:, 1] - features[:, 2] + 4 * features[:, 4] + 10 * torch.randn(256)
x = (features - features.mean(0)) / features.std(0)
y = (raw_price - raw_price.mean()) / raw_price.std()

model = nn.Sequential(
    nn.Linear(6, 24),
    nn.ELU(),
    nn.Linear(24, 24),
    nn.ELU(),
    nn.Linear(24, 1),
)
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
sched = torch.optim.lr_scheduler.StepLR(opt, step_size=25, gamma=0.5)
""",
    """
rows = torch.randint(0, len(x), (64,))
xb, yb = x[rows], y[rows]
pred = model(xb).squeeze(-1)
loss = F.mse_loss(pred, yb)
""",
    """
opt.zero_grad()
loss.backward()
opt.step()
sched.step()
""",
    faults=(
        Fault(
            "sigmoid before standardised prices",
            "output activation",
            (("    nn.Linear(24, 1),\n", "    nn.Linear(24, 1),\n    nn.Sigmoid(),\n"),),
            (r"sigmoid", r"> 5 \("),
            "DeepFD: activation of the last layer in a regression; Humbatova 2020",
        ),
        Fault(
            "no squeeze",
            "broadcast",
            (("model(xb).squeeze(-1)", "model(xb)"),),
            (r"mse", r"\(64, 1\)", r"64×1", r"\bpred\b"),
            "PyTorch issue 16045: (n, 1) against (n,) in mse_loss",
        ),
        Fault(
            "prices in raw money",
            "input scale",
            (("y = (raw_price - raw_price.mean()) / raw_price.std()", "y = 1000 * raw_price"),),
            (r"mse", r"\byb\b"),
            "Humbatova 2020: missing normalisation of the target; UMLAUT",
        ),
        Fault(
            "schedule that decays each batch",
            "rate too small",
            (("step_size=25, gamma=0.5", "step_size=1, gamma=0.1"),),
            (r"StepLR", r"\blr\b", r"Adam\b"),
            "Full Stack Deep Learning's troubleshooting: schedule per batch instead of per epoch",
            LOOPS,
        ),
        Fault(
            "features are not scaled, one is an id",
            "input scale",
            (
                (
                    "x = (features - features.mean(0)) / features.std(0)",
                    "x = features * torch.tensor([1.0, 1, 1, 1, 1, 5000])",
                ),
            ),
            (r"\bxb\b", r"\b0\.weight", r"> 0 \(Linear"),
            "Humbatova 2020: missing preprocessing of input data; DeepFD: preprocessing",
        ),
        Fault(
            "all weights one number",
            "initialization",
            (
                (
                    "opt = torch.optim.Adam",
                    "for layer in model:\n    if isinstance(layer, nn.Linear):\n"
                    "        nn.init.constant_(layer.weight, 0.1)\n"
                    "opt = torch.optim.Adam",
                ),
            ),
            (r"\b[02]\.weight", r"> [02] \(Linear"),
            "Humbatova 2020: wrong weights initialisation; AUTOTRAINER",
        ),
        Fault(
            "prediction rebuilt as a tensor",
            "cut",
            (
                (
                    "loss = F.mse_loss(pred, yb)",
                    "loss = F.mse_loss(torch.tensor(pred.tolist(), requires_grad=True), yb)",
                ),
            ),
            (r"tolist", r"torch\.tensor", r"\bpred\b"),
            "PyTorch forum: new tensor from the output's numbers, with requires_grad=True to silence the error",
        ),
    ),
)

CHURN = Program(
    "churn with own weights",
    "classifier",
    """
import torch
import torch.nn.functional as F

torch.manual_seed(3)
X = torch.randn(200, 10)
true_w = torch.randn(10)
Y = ((X @ true_w + 0.5 * (X[:, 0] * X[:, 1])) > 0).float()

W1 = (torch.randn(10, 16) / 10**0.5).requires_grad_()
b1 = torch.zeros(16, requires_grad=True)
W2 = (torch.randn(16, 1) / 4).requires_grad_()
b2 = torch.zeros(1, requires_grad=True)
params = [W1, b1, W2, b2]
lr = 0.5

def predict(batch):
    hidden = torch.tanh(batch @ W1 + b1)
    return torch.sigmoid(hidden @ W2 + b2).squeeze(1)
""",
    """
idx = torch.randperm(200)[:100]
p = predict(X[idx])
loss = F.binary_cross_entropy(p, Y[idx])
""",
    """
loss.backward()
with torch.no_grad():
    for w in params:
        w -= lr * w.grad
        w.grad.zero_()
""",
    faults=(
        Fault(
            "weights that require no gradient",
            "frozen",
            (
                ("W1 = (torch.randn(10, 16) / 10**0.5).requires_grad_()", "W1 = torch.randn(10, 16) / 10**0.5"),
                ("params = [W1, b1, W2, b2]", "params = [b1, W2, b2]"),
            ),
            (r"W1",),
            "Stack Overflow: tensor made without requires_grad; Islam 2019: API bug",
        ),
        Fault(
            "all leaves without requires_grad",
            "no gradient",
            (
                ("(torch.randn(10, 16) / 10**0.5).requires_grad_()", "torch.randn(10, 16) / 10**0.5"),
                ("b1 = torch.zeros(16, requires_grad=True)", "b1 = torch.zeros(16)"),
                ("(torch.randn(16, 1) / 4).requires_grad_()", "torch.randn(16, 1) / 4"),
                ("b2 = torch.zeros(1, requires_grad=True)", "b2 = torch.zeros(1)"),
            ),
            (r"\bW1\b", r"\bW2\b", r"\bb1\b", r"binary_cross_entropy"),
            "PyTorch forum: element 0 of tensors does not require grad and does not have a grad_fn",
        ),
        Fault(
            "the step makes new tensors",
            "never moves",
            (
                (
                    "        w -= lr * w.grad\n        w.grad.zero_()",
                    "        grad = w.grad.clone()\n        w.grad.zero_()\n        w = w - lr * grad",
                ),
            ),
            (r"W1", r"W2", r"b1"),
            "Stack Overflow: w = w - lr * w.grad rebinds the loop's name",
            LOOPS,
        ),
        Fault(
            "gradients are never zeroed by hand",
            "accumulated gradients",
            (("\n        w.grad.zero_()", ""),),
            (r"\bW1\b", r"\bW2\b", r"\bb1\b"),
            "PyTorch tutorial on autograd by hand, the step that is forgotten; Zhang 2018",
            LOOPS,
        ),
        Fault(
            "hand-written cross entropy of clipped probabilities",
            "nan",
            (
                (
                    "return torch.sigmoid(hidden @ W2 + b2).squeeze(1)",
                    "return (0.5 + hidden @ W2 + b2).clamp(0, 1).squeeze(1)",
                ),
                (
                    "F.binary_cross_entropy(p, Y[idx])",
                    "-(Y[idx] * torch.log(p) + (1 - Y[idx]) * torch.log(1 - p)).mean()",
                ),
            ),
            (r"\blog\b", r"clamp"),
            "DeepDiagnosis: numerical error in the loss; Islam 2019: NaN loss, log of 0",
        ),
        Fault(
            "loss without its minus",
            "sign",
            (
                (
                    "F.binary_cross_entropy(p, Y[idx])",
                    "(Y[idx] * torch.log(p) + (1 - Y[idx]) * torch.log(1 - p)).mean()",
                ),
            ),
            (r"\bmean\b", r"\bneg\b", r"\blog\b"),
            "Humbatova 2020: wrong loss function calculation",
        ),
        Fault(
            "probabilities rounded before the loss",
            "cut",
            (("F.binary_cross_entropy(p, Y[idx])", "F.binary_cross_entropy(p.round(), Y[idx])"),),
            (r"round",),
            "Stack Overflow: no gradient through torch.round",
        ),
    ),
)

MULTITASK = Program(
    "two heads of one trunk",
    "multi-task",
    """
import torch
import torch.nn as nn

torch.manual_seed(4)
N = 160
sensors = torch.randn(N, 12)
mix = torch.randn(12, 4)
latent = torch.tanh(sensors @ mix / 3)
temperature = latent[:, :2].sum(1, keepdim=True) + 0.05 * torch.randn(N, 1)
state = latent.argmax(1)

class Trunk(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(12, width), nn.Linear(width, width)])
        self.heads = nn.ModuleDict({"temperature": nn.Linear(width, 1), "state": nn.Linear(width, 4)})

    def forward(self, x):
        for block in self.blocks:
            x = nn.functional.silu(block(x))
        return self.heads["temperature"](x), self.heads["state"](x)

multi = Trunk()
huber, ce = nn.SmoothL1Loss(), nn.CrossEntropyLoss()
optim = torch.optim.AdamW([
    {"params": multi.blocks.parameters(), "lr": 3e-3},
    {"params": multi.heads.parameters(), "lr": 1e-2},
])
""",
    """
pick = torch.randint(N, (40,))
t_hat, s_hat = multi(sensors[pick])
loss_t = huber(t_hat, temperature[pick])
loss_s = ce(s_hat, state[pick])
loss = loss_t + loss_s
""",
    """
optim.zero_grad(set_to_none=True)
loss.backward()
nn.utils.clip_grad_norm_(multi.parameters(), 5.0)
optim.step()
""",
    faults=(
        Fault(
            "one term is left out of the sum",
            "unused",
            (("loss = loss_t + loss_s", "loss = loss_t"),),
            (r"loss_s", r"state", r"cross_entropy", r"CrossEntropy"),
            "Humbatova 2020: wrong loss function calculation, missing term",
        ),
        Fault(
            "blocks in a plain list",
            "unregistered",
            (
                (
                    "self.blocks = nn.ModuleList([nn.Linear(12, width), nn.Linear(width, width)])",
                    "self.blocks = [nn.Linear(12, width), nn.Linear(width, width)]",
                ),
                ('    {"params": multi.blocks.parameters(), "lr": 3e-3},\n', ""),
            ),
            (r"blocks",),
            "PyTorch FAQ and forum: layers in a Python list; Megatron-LM 174 for the question",
        ),
        Fault(
            "a group of the optimizer is missing",
            "no optimizer",
            (('    {"params": multi.heads.parameters(), "lr": 1e-2},\n', ""),),
            (r"heads", r"temperature", r"state"),
            "TrainCheck: parameters that no optimizer holds; PyTorch tutorials 2522",
        ),
        Fault(
            "rate 0 for the trunk",
            "rate too small",
            (('"lr": 3e-3', '"lr": 0.0'),),
            (r"blocks", r"group [01]\b"),
            "Stack Overflow: a parameter group whose rate is 0",
        ),
        Fault(
            "clipped after the step",
            "early call",
            (
                (
                    "nn.utils.clip_grad_norm_(multi.parameters(), 5.0)\noptim.step()",
                    "optim.step()\nnn.utils.clip_grad_norm_(multi.parameters(), 5.0)",
                ),
            ),
            (r"clip",),
            "transformers 986: order of clip and step",
        ),
        Fault(
            "weight decay of 30",
            "regularization",
            (("optim = torch.optim.AdamW([", "optim = torch.optim.AdamW(weight_decay=30.0, params=["),),
            (r"weight_decay", r"AdamW", r"blocks", r"heads"),
            "Humbatova 2020: wrong regularisation, too much of it",
            LOOPS,
        ),
        Fault(
            "freezing a head that should learn",
            "frozen",
            (
                (
                    "huber, ce =",
                    'for name, weight in multi.named_parameters():\n    weight.requires_grad_("state" not in name)\n'
                    "huber, ce =",
                ),
            ),
            (r"state",),
            "PyTorch forum: requires_grad set by a name that matches too much",
        ),
    ),
)

RATINGS = Program(
    "stars of films",
    "recommender",
    """
import torch
from torch import nn

torch.manual_seed(5)
n_users, n_items, rank = 40, 30, 6
gen_u, gen_i = torch.randn(n_users, 3), torch.randn(n_items, 3)
users = torch.randint(0, n_users, (600,))
items = torch.randint(0, n_items, (600,))
stars = (3 + 0.8 * (gen_u[users] * gen_i[items]).sum(1)).clamp(1, 5)

class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(n_users, rank)
        self.item = nn.Embedding(n_items, rank)
        self.user_bias = nn.Embedding(n_users, 1)
        self.item_bias = nn.Embedding(n_items, 1)
        self.mean = nn.Parameter(torch.tensor(3.0))
        nn.init.normal_(self.user.weight, std=0.3)
        nn.init.normal_(self.item.weight, std=0.3)
        nn.init.zeros_(self.user_bias.weight)
        nn.init.zeros_(self.item_bias.weight)

    def forward(self, u, i):
        dot = (self.user(u) * self.item(i)).sum(dim=1, keepdim=True)
        score = dot + self.user_bias(u) + self.item_bias(i) + self.mean
        return score.squeeze(1)

factors = Factors()
mse = nn.MSELoss()
adagrad = torch.optim.Adagrad(factors.parameters(), lr=0.2)
""",
    """
batch = torch.randint(0, 600, (200,))
guess = factors(users[batch], items[batch])
loss = mse(guess, stars[batch])
""",
    """
adagrad.zero_grad()
loss.backward()
adagrad.step()
""",
    faults=(
        Fault(
            "both factors begin at zero",
            "initialization",
            (
                ("nn.init.normal_(self.user.weight, std=0.3)", "nn.init.zeros_(self.user.weight)"),
                ("nn.init.normal_(self.item.weight, std=0.3)", "nn.init.zeros_(self.item.weight)"),
            ),
            (r"\buser\b", r"\bitem\b"),
            "Karpathy's recipe: broken symmetry; Humbatova 2020: wrong weights initialisation",
        ),
        Fault(
            "score keeps its last dimension",
            "broadcast",
            (("return score.squeeze(1)", "return score"),),
            (r"mse", r"score", r"guess", r"\(200, 1\)", r"200×1"),
            "FARM 229: (n, 1) against (n,) in a regression loss",
        ),
        Fault(
            "sigmoid for stars",
            "output activation",
            (("return score.squeeze(1)", "return torch.sigmoid(score.squeeze(1))"),),
            (r"sigmoid",),
            "DeepFD: activation and loss do not fit the range of the labels",
        ),
        Fault(
            "running loss keeps its graph",
            "kept graphs",
            (
                ("adagrad = torch", "running_loss = 0.0\nadagrad = torch"),
                ("adagrad.step()", "adagrad.step()\nrunning_loss += loss"),
            ),
            (r"running_loss",),
            "PyTorch FAQ: my model reports out of memory, total_loss += loss",
            LOOPS,
        ),
        Fault(
            "embeddings under no_grad",
            "cut",
            (
                (
                    "        dot = (self.user(u) * self.item(i)).sum(dim=1, keepdim=True)\n",
                    "        with torch.no_grad():\n"
                    "            dot = (self.user(u) * self.item(i)).sum(dim=1, keepdim=True)\n",
                ),
            ),
            (r"\buser\b", r"\bitem\b", r"no_grad"),
            "TrainCheck: silent errors, gradients disabled in a part of the forward",
        ),
    ),
)

COUNTS = Program(
    "visits of a shop",
    "regression",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(6)
day = torch.rand(180, 5)
rate = torch.exp(1.5 * day[:, 0] - day[:, 1] + 0.8)
visits = torch.poisson(rate)

class Poisson(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(5, 20)
        self.norm = nn.LayerNorm(20)
        self.drop = nn.Dropout(0.1)
        self.log_rate = nn.Linear(20, 1)

    def forward(self, x):
        h = self.drop(F.gelu(self.norm(self.inner(x))))
        return self.log_rate(h)[:, 0]

poisson = Poisson()
nll = nn.PoissonNLLLoss(log_input=True)
opt = torch.optim.NAdam(poisson.parameters(), lr=1e-2)
""",
    """
poisson.train()
chosen = torch.randint(180, (60,))
out = poisson(day[chosen])
loss = nll(out, visits[chosen])
""",
    """
opt.zero_grad()
loss.backward()
opt.step()
if step % 10 == 9:
    poisson.eval()
    with torch.no_grad():
        test_error = (poisson(day).exp() - visits).abs().mean()
""",
    faults=(
        Fault(
            "the dropout is nearly everything",
            "dropout",
            (("nn.Dropout(0.1)", "nn.Dropout(0.97)"),),
            (r"drop",),
            "Humbatova 2020: hyperparameters, dropout; confusing keep and drop probability",
        ),
        Fault(
            "validation leaves eval on",
            "eval mode",
            (("poisson.train()\n", ""), ("if step % 10 == 9:", "if step % 10 == 0:")),
            (r"\bdrop\b", r"Dropout", r"Poisson"),
            "Karpathy's common mistakes: forgot to toggle train and eval mode",
            LOOPS,
        ),
        Fault(
            "rate is in the exponent's tail",
            "rate too small",
            (("lr=1e-2", "lr=1e-8"),),
            (r"\blr\b", r"NAdam"),
            "DeepFD: learning rate too low",
            LOOPS,
        ),
        Fault(
            "step is named and not called",
            "no step",
            (("opt.step()\n", "opt.step\n"),),
            (r"opt\.step", r"NAdam", r"log_rate", r"inner"),
            "Stack Overflow: optimizer.step without parentheses",
        ),
        Fault(
            "root of a rectified output",
            "nan",
            (("loss = nll(out, visits[chosen])", "loss = F.mse_loss(F.relu(out).sqrt(), visits[chosen].sqrt())"),),
            (r"sqrt",),
            "PyTorch forum: gradient of sqrt at 0 is infinite, NaN after one step; DeepDiagnosis: numerical error",
        ),
        Fault(
            "loss is the accuracy",
            "no gradient",
            (("loss = nll(out, visits[chosen])", "loss = (out.exp().round() != visits[chosen]).float().mean()"),),
            (r"\bne\b", r"!=", r"round"),
            "Humbatova 2020: wrong loss, a metric that cannot be derived",
        ),
    ),
)

PROGRAMS = [RINGS, HOUSES, CHURN, MULTITASK, RATINGS, COUNTS]
