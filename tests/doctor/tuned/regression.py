"""Faults of regressions: with mse, with a likelihood, and written by hand with plain leaves."""

from tests.doctor.program import Fault, Host, Program

ONE_CELL: tuple[Host, ...] = ("whole", "loop", "step", "function")
LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "house prices",
        "regression",
        setup="""
import torch
import torch.nn as nn

torch.manual_seed(3)
N = 120
rooms = torch.randint(1, 9, (N, 1)).float()
area = rooms * 25 + 10 * torch.randn(N, 1)
year = torch.randint(1900, 2020, (N, 1)).float()
features = torch.cat([rooms, area, year], dim=1)
features = (features - features.mean(0)) / features.std(0)
price = 0.7 * features[:, 0] + features[:, 1] * features[:, 2] - 1.5 * torch.sin(features[:, 2])
price = (price - price.mean()) / price.std()

class Regressor(nn.Module):
    def __init__(self, n_in, n_hidden):
        super(Regressor, self).__init__()
        self.layer1 = nn.Linear(n_in, n_hidden)
        self.layer2 = nn.Linear(n_hidden, n_hidden)
        self.head = nn.Linear(n_hidden, 1)

    def forward(self, x):
        h = torch.relu(self.layer1(x))
        h = torch.relu(self.layer2(h))
        return self.head(h)

model = Regressor(3, 48)
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.99)
history = []
""",
        forward="""
prediction = model(features).squeeze(-1)
loss = criterion(prediction, price)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
scheduler.step()
history.append(loss.item())
""",
        faults=(
            Fault(
                "squeeze is missing",
                "broadcast",
                (("model(features).squeeze(-1)", "model(features)"),),
                where=("120", "criterion", "mse", "prediction"),
                source="pytorch 16045, (n, 1) against (n,) in a loss; Humbatova 2020, Wrong tensor shape",
            ),
            Fault(
                "sigmoid at the output",
                "output activation",
                (("return self.head(h)", "return torch.sigmoid(self.head(h))"),),
                where=("sigmoid", "head"),
                source="Humbatova 2020, Wrong type of activation function; DeepFD, activation",
            ),
            Fault(
                "relu at the output",
                "output activation",
                (("return self.head(h)", "return torch.relu(self.head(h))"),),
                where=("relu", "head"),
                source="Humbatova 2020, Wrong type of activation function; DeepFD, activation",
            ),
            Fault(
                "prices in thousands",
                "input scale",
                (("price = (price - price.mean()) / price.std()", "price = 250000 + 90000 * price"),),
                where=("target", "price"),
                source="Humbatova 2020, Missing preprocessing step (normalisation)",
            ),
            Fault(
                "features are not normalised",
                "input scale",
                (
                    ("features = (features - features.mean(0)) / features.std(0)\n", ""),
                    (
                        "price = 0.7 * features[:, 0] + features[:, 1] * features[:, 2]"
                        " - 1.5 * torch.sin(features[:, 2])",
                        "f = (features - features.mean(0)) / features.std(0)\n"
                        "price = 0.7 * f[:, 0] + f[:, 1] * f[:, 2] - 1.5 * torch.sin(f[:, 2])",
                    ),
                ),
                where=("features", "layer1", "input"),
                source="Humbatova 2020, Missing preprocessing step (normalisation); DeepFD, preprocessing",
            ),
            Fault(
                "graph is kept in a list",
                "kept graphs",
                (("history.append(loss.item())", "history.append(loss)"),),
                where=("history", "loss"),
                source="PyTorch FAQ, history across your training loop; pytorch 12664",
                hosts=LOOPS,
            ),
            Fault(
                "schedule of 0.1 per batch",
                "rate too small",
                (("gamma=0.99", "gamma=0.1"),),
                where=("rate", r"\blr\b", "scheduler", "optimizer"),
                source="Humbatova 2020, Suboptimal learning rate; PyTorch forum, scheduler stepped per batch",
                hosts=LOOPS,
            ),
            Fault(
                "loss wrapped into a variable",
                "cut",
                (
                    (
                        "loss = criterion(prediction, price)\n",
                        "loss = criterion(prediction, price)\n"
                        "loss = torch.autograd.Variable(loss.data, requires_grad=True)\n",
                    ),
                ),
                where=(r"\.data", "variable", "loss"),
                source="Stack Overflow and PyTorch forum, Variable(loss.data, requires_grad=True)",
            ),
            Fault(
                "forward under no_grad",
                "no gradient",
                (
                    (
                        "prediction = model(features).squeeze(-1)\n",
                        "with torch.no_grad():\n    prediction = model(features).squeeze(-1)\n",
                    ),
                ),
                where=("no_grad", "prediction"),
                source="Islam 2019, API bug; PyTorch forum, element 0 of tensors does not require grad",
            ),
            Fault(
                "scheduler before optimizer",
                "early call",
                (("optimizer.step()\nscheduler.step()\n", "scheduler.step()\noptimizer.step()\n"),),
                where=("scheduler",),
                source="Humbatova 2020, Wrong position of API call; warning of PyTorch 1.1; transformers 1563",
            ),
            Fault(
                "huge weight decay",
                "regularization",
                (
                    (
                        "torch.optim.Adam(model.parameters(), lr=0.01)",
                        "torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=30)",
                    ),
                ),
                where=("decay", "optimizer"),
                source="Humbatova 2020, Suboptimal hyperparameters tuning (regularisation)",
                hosts=LOOPS,
            ),
            Fault(
                "detached between the layers",
                "cut",
                (("h = torch.relu(self.layer1(x))", "h = torch.relu(self.layer1(x)).detach()"),),
                where=("layer1", "detach"),
                source="Zhang 2018, Confusion with computation model; pytorch/tutorials 2522",
            ),
            Fault(
                "targets follow the predictions",
                "target",
                (
                    (
                        "loss = criterion(prediction, price)",
                        "price_hat = 0.5 * (prediction + prediction.mean())\nloss = criterion(prediction, price_hat)",
                    ),
                ),
                where=("target", "price_hat"),
                source="Humbatova 2020, Wrong loss function calculation",
            ),
            Fault(
                "backward twice",
                "second backward",
                (("loss.backward()\n", "loss.backward()\nloss.backward()\n"),),
                where=("backward", "loss"),
                source="PyTorch forum, Trying to backward through the graph a second time",
            ),
        ),
    ),
    Program(
        "linear regression by hand",
        "plain leaves",
        setup="""
import torch

torch.manual_seed(4)
X = torch.randn(50, 4)
true_w = torch.tensor([[2.0], [-1.0], [0.5], [3.0]])
Y = X @ true_w + 4.2 + 0.05 * torch.randn(50, 1)

w = torch.randn(4, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
lr = 0.1

def linreg(X, w, b):
    return X @ w + b

def squared_loss(y_hat, y):
    return ((y_hat - y.reshape(y_hat.shape)) ** 2 / 2).mean()
""",
        forward="""
loss = squared_loss(linreg(X, w, b), Y)
""",
        update="""
loss.backward()
with torch.no_grad():
    w -= lr * w.grad
    b -= lr * b.grad
    w.grad.zero_()
    b.grad.zero_()
""",
        faults=(
            Fault(
                "the update makes a new w",
                "no gradient",
                (
                    (
                        "    w -= lr * w.grad\n    b -= lr * b.grad\n    w.grad.zero_()\n    b.grad.zero_()\n",
                        "    w = w - lr * w.grad\n    b = b - lr * b.grad\n",
                    ),
                ),
                where=(r"\bw\b", r"\bb\b", "no_grad"),
                source="Stack Overflow and PyTorch forum, w = w - lr * w.grad under no_grad",
                hosts=LOOPS,
            ),
            Fault(
                "a leaf is changed in place",
                "inplace",
                (
                    (
                        "with torch.no_grad():\n    w -= lr * w.grad\n    b -= lr * b.grad\n",
                        "w -= lr * w.grad\nb -= lr * b.grad\nif True:\n",
                    ),
                ),
                where=(r"\bw\b", "leaf"),
                source="PyTorch forum, a leaf variable that requires grad is used in an in-place operation",
            ),
            Fault(
                "gradients are not zeroed",
                "accumulated gradients",
                (("    w.grad.zero_()\n    b.grad.zero_()\n", ""), ("lr = 0.1", "lr = 0.3")),
                where=(r"\bw\b", r"\bb\b", "zero"),
                source="Karpathy, most common mistakes: you forgot to .zero_grad() before .backward()",
                hosts=LOOPS,
            ),
            Fault(
                "ascent",
                "sign",
                (("    w -= lr * w.grad\n    b -= lr * b.grad\n", "    w += lr * w.grad\n    b += lr * b.grad\n"),),
                where=(r"\bw\b", r"\bb\b", "loss"),
                source="Islam 2019, Logic bug",
                hosts=LOOPS,
            ),
            Fault(
                "wrong view of the product",
                "broadcast",
                (
                    ("return X @ w + b", "return (X @ w + b).squeeze()"),
                    ("(y_hat - y.reshape(y_hat.shape))", "(y_hat - y)"),
                ),
                where=("y_hat", "sub", "50"),
                source="Humbatova 2020, Wrong tensor shape; pytorch 16045",
            ),
            Fault(
                "rate of 3",
                "rate too large",
                (("lr = 0.1", "lr = 3.0"),),
                where=("rate", r"\blr\b", r"\bw\b"),
                source="Humbatova 2020, Suboptimal learning rate",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "uncertain regression",
        "regression",
        setup="""
import torch
from torch import nn

torch.manual_seed(5)
x = torch.linspace(-2, 2, 80).unsqueeze(1)
y = torch.sin(2 * x) + 0.2 * x.abs() * torch.randn_like(x)
body = nn.Sequential(nn.Linear(1, 40), nn.Tanh())
mean_head, spread_head = nn.Linear(40, 1), nn.Linear(40, 1)
log_bias = torch.zeros(1, requires_grad=True)
parameters = [*body.parameters(), *mean_head.parameters(), *spread_head.parameters(), log_bias]
optimizer = torch.optim.RMSprop(parameters, lr=3e-3)

def nll(mean, log_var, target):
    return 0.5 * (log_var + (target - mean) ** 2 / log_var.exp()).mean()
""",
        forward="""
h = body(x)
mean, log_var = mean_head(h), spread_head(h) + log_bias
loss = nll(mean, log_var, y)
""",
        update="""
optimizer.zero_grad(set_to_none=True)
loss.backward()
torch.nn.utils.clip_grad_norm_(parameters, 1.0)
optimizer.step()
""",
        steps=60,
        faults=(
            Fault(
                "the log of a relu",
                "nan",
                (
                    (
                        "mean, log_var = mean_head(h), spread_head(h) + log_bias",
                        "mean, log_var = mean_head(h), torch.log(torch.relu(spread_head(h) + log_bias))",
                    ),
                ),
                where=(r"\blog\b", "log_var", "relu"),
                source="Zhang 2018, Incorrect parameter or structure; Islam 2019, Logic bug: log of 0",
            ),
            Fault(
                "a parameter in no optimizer",
                "no optimizer",
                (("*spread_head.parameters(), log_bias]", "*spread_head.parameters()]"),),
                where=("log_bias",),
                source="PyTorch forum, own parameter is not updated; pytorch/tutorials 2522",
            ),
            Fault(
                "a head in no optimizer",
                "no optimizer",
                (("*mean_head.parameters(), *spread_head", "*spread_head"),),
                where=("mean_head",),
                source="Lightning 19955, why is this parameter not trained; Islam 2019, Data flow bug",
            ),
            Fault(
                "clip after step",
                "early call",
                (
                    (
                        "torch.nn.utils.clip_grad_norm_(parameters, 1.0)\noptimizer.step()\n",
                        "optimizer.step()\ntorch.nn.utils.clip_grad_norm_(parameters, 1.0)\n",
                    ),
                ),
                where=("clip",),
                source="Humbatova 2020, Wrong position of API call; transformers 986",
            ),
            Fault(
                "clip before backward",
                "early call",
                (
                    (
                        "loss.backward()\ntorch.nn.utils.clip_grad_norm_(parameters, 1.0)\n",
                        "torch.nn.utils.clip_grad_norm_(parameters, 1.0)\nloss.backward()\n",
                    ),
                ),
                where=("clip",),
                source="Humbatova 2020, Wrong position of API call",
            ),
            Fault(
                "the spread is never used",
                "unused",
                (("0.5 * (log_var + (target - mean) ** 2 / log_var.exp()).mean()", "((target - mean) ** 2).mean()"),),
                where=("spread_head", "log_bias", "log_var"),
                source="Humbatova 2020, Wrong loss function calculation; Islam 2019, Data flow bug",
            ),
            Fault(
                "the mean becomes numpy",
                "cut",
                (("mean, log_var = mean_head(h)", "mean, log_var = torch.from_numpy(mean_head(h).detach().numpy())"),),
                where=("numpy", "mean_head", "detach"),
                source="PyTorch forum, numpy breaks the graph; Zhang 2018, Confusion with computation model",
            ),
        ),
    ),
    Program(
        "curve with a train function",
        "regression",
        setup="""
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(6)
xs = torch.rand(200, 2) * 2 - 1
ys = (xs[:, :1] * xs[:, 1:]) + xs[:, :1] ** 2
train_x, train_y, val_x, val_y = xs[:160], ys[:160], xs[160:], ys[160:]

def make_model(width=32, depth=3):
    layers, n = [], 2
    for _ in range(depth):
        layers += [nn.Linear(n, width), nn.BatchNorm1d(width), nn.ReLU()]
        n = width
    layers.append(nn.Linear(n, 1))
    return nn.Sequential(*layers)

def train_epoch(model, optimizer, bs=40):
    model.train()
    total = 0.0
    for i in range(0, len(train_x), bs):
        xb, yb = train_x[i:i + bs], train_y[i:i + bs]
        optimizer.zero_grad()
        loss = F.mse_loss(model(xb), yb)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(xb)
    return total / len(train_x)

def evaluate(model):
    model.eval()
    with torch.no_grad():
        return F.mse_loss(model(val_x), val_y).item()

model = make_model()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
""",
        forward="""
loss = train_epoch(model, optimizer)
""",
        update="""
val_loss = evaluate(model)
if step % 5 == 0:
    print(f"epoch {step}: {loss:.4f} {val_loss:.4f}")
""",
        steps=12,
        faults=(
            Fault(
                "train() is called once only",
                "eval mode",
                (
                    ("    model.train()\n    total = 0.0\n", "    total = 0.0\n"),
                    ("model = make_model()\n", "model = make_model().train()\nprint(evaluate(model))\n"),
                ),
                where=("eval", "batch_?norm", "train_epoch"),
                source="Karpathy, most common mistakes: you forgot to toggle train/eval mode for the net",
                hosts=ONE_CELL,
            ),
            Fault(
                "momentum 0",
                "normalization",
                (("nn.BatchNorm1d(width)", "nn.BatchNorm1d(width, momentum=0.0)"),),
                where=("batch_?norm", "momentum"),
                source="Humbatova 2020, Wrong layer properties; PyTorch forum, momentum of BatchNorm and Keras",
                hosts=ONE_CELL,
            ),
            Fault(
                "the optimizer holds another model",
                "no optimizer",
                (
                    (
                        "torch.optim.Adam(model.parameters(), lr=5e-3)",
                        "torch.optim.Adam(make_model().parameters(), lr=5e-3)",
                    ),
                ),
                where=("0.weight", "optimizer", "parameter"),
                source="Islam 2019, Control and sequence bug; PyTorch forum, optimizer of another model",
                hosts=ONE_CELL,
            ),
            Fault(
                "noise instead of the inputs",
                "none found",
                (("F.mse_loss(model(xb), yb)", "F.mse_loss(model(torch.randn_like(xb)), yb)"),),
                where=("loss", "train_epoch"),
                source="Humbatova 2020, Low quality training data",
                hosts=LOOPS,
            ),
        ),
    ),
)
