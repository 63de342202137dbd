"""Fresh faults: classifiers of tables and small pictures, as beginners write them."""

from tests.doctor.program import Fault, Host, Program

ONE_CELL: tuple[Host, ...] = ("whole", "loop", "step", "function")
LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "wine cultivars",
        "classifier",
        setup="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
centers = torch.randn(4, 8)
labels = torch.randint(0, 4, (160,))
units = torch.tensor([1.0, 0.2, 5.0, 20.0, 300.0, 1.0, 0.1, 100.0])
raw = (centers[labels] + 0.6 * torch.randn(160, 8)) * units + 4 * units
X = (raw - raw.mean(0)) / raw.std(0)
loader = DataLoader(TensorDataset(X, labels), batch_size=32, shuffle=True)

net = nn.Sequential(
    nn.Linear(8, 32),
    nn.ReLU(),
    nn.Linear(32, 16),
    nn.ReLU(),
    nn.Linear(16, 4),
)
loss_fn = nn.CrossEntropyLoss()
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
""",
        forward="""
net.train()
running_loss = 0.0
correct = 0
for inputs, targets in loader:
    opt.zero_grad()
    outputs = net(inputs)
    loss = loss_fn(outputs, targets)
    loss.backward()
    opt.step()
    running_loss += loss.item()
    correct += (outputs.argmax(dim=1) == targets).sum().item()
""",
        update="""
accuracy = correct / len(X)
if step % 10 == 0:
    print(f"epoch {step} loss {running_loss / len(loader):.3f} accuracy {accuracy:.3f}")
""",
        steps=30,
        faults=(
            Fault(
                "wine softmax before the loss",
                "loss input",
                (("nn.Linear(16, 4),", "nn.Linear(16, 4),\n    nn.Softmax(dim=1),"),),
                where=("softmax", "cross_entropy", "loss_fn"),
                source="UMLAUT 2021, softmax and cross entropy from logits; Humbatova 2020, Wrong loss function "
                "calculation",
                hosts=ONE_CELL,
            ),
            Fault(
                "wine relu on the logits",
                "output activation",
                (("nn.Linear(16, 4),", "nn.Linear(16, 4),\n    nn.ReLU(),"),),
                where=("relu", r"\b5\b", "output"),
                source="NeuraLint 2021, last layer activation; DeepFD 2022, wrong activation",
                hosts=ONE_CELL,
            ),
            Fault(
                "wine raw chemistry",
                "input scale",
                (("X = (raw - raw.mean(0)) / raw.std(0)", "X = raw"),),
                where=("inputs", r"\bX\b", "raw"),
                source="UMLAUT 2021, unnormalized input; Humbatova 2020, Missing preprocessing step",
                hosts=ONE_CELL,
            ),
            Fault(
                "wine no zero_grad",
                "accumulated gradients",
                (("    opt.zero_grad()\n", ""),),
                where=("zero_grad", r"opt\b"),
                source="Karpathy 2018, most common neural net mistakes, 'you forgot to .zero_grad()'; Humbatova "
                "2020, Missing API call",
                hosts=ONE_CELL,
            ),
            Fault(
                "wine rate of ten",
                "rate too large",
                (("lr=0.05", "lr=10"),),
                where=(r"\blr\b", "rate", r"opt\b"),
                source="AUTOTRAINER 2021, exploding/oscillating loss; Humbatova 2020, Suboptimal learning rate",
                hosts=LOOPS,
            ),
            Fault(
                "wine labels shuffled apart",
                "data",
                (("TensorDataset(X, labels)", "TensorDataset(X[torch.randperm(160)], labels)"),),
                where=("labels", "targets", "data", "loader"),
                source="Humbatova 2020, Wrong labels for training data / Data shuffling; StackOverflow, shuffling x "
                "and not y",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "customer churn",
        "classifier",
        setup="""
import torch
import torch.nn as nn
import torch.optim as optim

torch.manual_seed(11)
x_train = torch.randn(256, 6)
signal = x_train[:, 0] * x_train[:, 1] + 0.3 * x_train[:, 2]
y_train = (signal > 0).float().view(-1, 1)

class ChurnNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 32)
        self.fc2 = nn.Linear(32, 16)
        self.out = nn.Linear(16, 1)
        self.drop = nn.Dropout(p=0.1)

    def forward(self, x):
        x = torch.relu(self.fc1(x))
        x = self.drop(torch.relu(self.fc2(x)))
        return torch.sigmoid(self.out(x))

model = ChurnNet()
criterion = nn.BCELoss()
optimizer = optim.Adam(model.parameters(), lr=0.01)
""",
        forward="""
probability = model(x_train)
loss = criterion(probability, y_train)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
accuracy = ((probability > 0.5).float() == y_train).float().mean().item()
""",
        steps=80,
        faults=(
            Fault(
                "churn softmax over one unit",
                "output activation",
                (("torch.sigmoid(self.out(x))", "torch.softmax(self.out(x), dim=1)"),),
                where=("softmax", r"\bout\b"),
                source="StackOverflow, softmax with one output unit; DeepFD 2022, wrong activation",
            ),
            Fault(
                "churn relu before BCE",
                "output activation",
                (("torch.sigmoid(self.out(x))", "torch.relu(self.out(x))"),),
                where=("relu", r"\bout\b", "binary_cross_entropy", "criterion"),
                source="DeepLocalize 2021, relu at the output with binary cross entropy",
            ),
            Fault(
                "churn sigmoid left out",
                "output activation",
                (("torch.sigmoid(self.out(x))", "self.out(x)"),),
                where=("sigmoid", r"\bout\b", "between 0 and 1", "binary_cross_entropy", "criterion"),
                source="PyTorch forum, 'all elements of input should be between 0 and 1'; Humbatova 2020, Missing "
                "activation",
                hosts=LOOPS,
            ),
            Fault(
                "churn sigmoid twice",
                "loss input",
                (("nn.BCELoss()", "nn.BCEWithLogitsLoss()"),),
                where=("sigmoid", "logits", "criterion"),
                source="PyTorch forum, sigmoid with BCEWithLogitsLoss; Humbatova 2020, Wrong selection of loss "
                "function",
            ),
            Fault(
                "churn no activation between layers",
                "no activation",
                (
                    ("x = torch.relu(self.fc1(x))", "x = self.fc1(x)"),
                    ("self.drop(torch.relu(self.fc2(x)))", "self.drop(self.fc2(x))"),
                ),
                where=("fc1", "fc2", "linear"),
                source="UMLAUT 2021, missing nonlinearity; Humbatova 2020, Missing activation; NeuraLint",
            ),
            Fault(
                "churn dropout 0.97",
                "dropout",
                (("nn.Dropout(p=0.1)", "nn.Dropout(p=0.97)"),),
                where=("dropout", "drop"),
                source="UMLAUT 2021, dropout rate too high (p as keep probability)",
            ),
            Fault(
                "churn labels all zero",
                "target",
                (("(signal > 0)", "(signal > 30)"),),
                where=("y_train", "target", "constant", "label"),
                source="Humbatova 2020, Wrong labels / unbalanced training data",
            ),
        ),
    ),
    Program(
        "digit templates",
        "classifier",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(5)
templates = (torch.rand(10, 64) > 0.5).float()
Y = torch.randint(0, 10, (600,))
pixels = (200 * templates[Y] + 25 * torch.randn(600, 64)).clamp(0, 255)
X = pixels / 255.0 - 0.5

class MLP(nn.Module):
    def __init__(self):
        super(MLP, self).__init__()
        self.hidden1 = nn.Linear(64, 64)
        self.hidden2 = nn.Linear(64, 32)
        self.output = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.hidden1(x))
        x = F.relu(self.hidden2(x))
        return self.output(x)

mlp = MLP()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(mlp.parameters(), lr=0.1, momentum=0.9)
""",
        forward="""
rows = torch.randint(0, 600, (64,))
x, y = X[rows], Y[rows]
logits = mlp(x)
loss = criterion(logits, y)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
with torch.no_grad():
    acc = (logits.argmax(1) == y).float().mean().item()
""",
        steps=60,
        faults=(
            Fault(
                "digits sigmoid over ten classes",
                "output activation",
                (("return self.output(x)", "return torch.sigmoid(self.output(x))"),),
                where=("sigmoid", r"\boutput\b", "cross_entropy"),
                source="DeepFD 2022, StackOverflow 'sigmoid in a 10 class problem'; NeuraLint, last layer activation",
            ),
            Fault(
                "digits as one sigmoid number",
                "output activation",
                (
                    ("self.output = nn.Linear(32, 10)", "self.output = nn.Linear(32, 1)"),
                    ("return self.output(x)", "return torch.sigmoid(self.output(x)).squeeze(1)"),
                    ("loss = criterion(logits, y)", "loss = F.mse_loss(logits, y.float())"),
                    ("(logits.argmax(1) == y)", "(logits.round() == y)"),
                ),
                where=("sigmoid", r"\boutput\b", "mse"),
                source="DeepFD 2022, MSE and sigmoid for labels 0..9; Humbatova 2020, Wrong loss function",
            ),
            Fault(
                "digits nll of raw scores",
                "loss input",
                (("nn.CrossEntropyLoss()", "nn.NLLLoss()"),),
                where=("nll", "log_softmax", "criterion"),
                source="PyTorch forum, negative loss with NLLLoss (log_softmax is missing)",
            ),
            Fault(
                "digits argmax in the loss",
                "cut",
                (("loss = criterion(logits, y)", "loss = F.mse_loss(logits.argmax(1).float(), y.float())"),),
                where=("argmax",),
                source="PyTorch forum, 'element 0 of tensors does not require grad' after argmax",
            ),
            Fault(
                "digits weights of standard deviation 5",
                "initialization",
                (("mlp = MLP()", "mlp = MLP()\nfor p in mlp.parameters():\n    nn.init.normal_(p, std=5.0)"),),
                where=("hidden", "output", "weight", "init"),
                source="Karpathy, loss at init is not log(classes); Humbatova 2020, Wrong weights initialization",
            ),
            Fault(
                "digits pixels of 0 to 255",
                "input scale",
                (("X = pixels / 255.0 - 0.5", "X = pixels"),),
                where=(r"\bx\b", "pixels", "input"),
                source="UMLAUT 2021, input not normalized; DeepFD, missing normalization",
            ),
        ),
    ),
    Program(
        "spirals by hand",
        "classifier",
        setup="""
import torch

g = torch.manual_seed(2)
n = 90
t = torch.linspace(0.3, 2.5, n)
arms = [torch.stack([t * torch.cos(1.5 * t + k * 2.094), t * torch.sin(1.5 * t + k * 2.094)], 1) for k in range(3)]
points = torch.cat(arms) + 0.05 * torch.randn(3 * n, 2)
classes = torch.arange(3).repeat_interleave(n)

W1 = torch.randn(2, 40) * 0.8
b1 = torch.zeros(40)
W2 = torch.randn(40, 3) * 0.2
b2 = torch.zeros(3)
params = [W1, b1, W2, b2]
for p in params:
    p.requires_grad_(True)
lr = 0.8
""",
        forward="""
hidden = torch.tanh(points @ W1 + b1)
scores = hidden @ W2 + b2
logp = torch.log_softmax(scores, dim=1)
loss = -logp[torch.arange(3 * n), classes].mean()
""",
        update="""
loss.backward()
with torch.no_grad():
    for p in params:
        p -= lr * p.grad
        p.grad = None
""",
        steps=100,
        faults=(
            Fault(
                "spirals update binds a new tensor",
                "no step",
                (("p -= lr * p.grad", "p = p - lr * p.grad"),),
                where=("W1", "W2", "step", "update", "never"),
                source="StackOverflow, w = w - lr * w.grad in place of w -= (hand-written updates)",
                hosts=LOOPS,
            ),
            Fault(
                "spirals gradient ascent",
                "sign",
                (("p -= lr * p.grad", "p += lr * p.grad"),),
                where=("sign", "maximi", "ascen", "rises", "grows", "increas"),
                source="StackOverflow, loss increases with hand-written gradient descent; Humbatova 2020, Wrong "
                "optimization",
                hosts=LOOPS,
            ),
            Fault(
                "spirals all weights zero",
                "initialization",
                (
                    ("torch.randn(2, 40) * 0.8", "torch.zeros(2, 40)"),
                    ("torch.randn(40, 3) * 0.2", "torch.zeros(40, 3)"),
                ),
                where=("W1", "W2"),
                source="DeepLocalize 2021, zero weights; Humbatova 2020, Wrong weights initialization",
            ),
            Fault(
                "spirals softmax over the batch",
                "wrong dimension",
                (("torch.log_softmax(scores, dim=1)", "torch.log_softmax(scores, dim=0)"),),
                where=("softmax", r"dim"),
                source="PyTorch forum, softmax dim 0 or 1; Humbatova 2020, Wrong tensor shape",
            ),
            Fault(
                "spirals first weights as data",
                "cut",
                (
                    ("points @ W1 + b1", "points @ W1.data + b1.data"),
                    (
                        "for p in params:\n        p -=",
                        "for p in params:\n        if p.grad is None:\n            continue\n        p -=",
                    ),
                ),
                where=("W1", "b1"),
                source="PyTorch forum, .data in the forward pass",
            ),
            Fault(
                "spirals rate of 1e-6",
                "rate too small",
                (("lr = 0.8", "lr = 1e-6"),),
                where=("rate", r"\blr\b", "hardly", "small"),
                source="AUTOTRAINER 2021, slow convergence; Humbatova 2020, Suboptimal learning rate",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "movie genres",
        "multi-label",
        setup="""
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy, binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(21)
plots = torch.randn(192, 12)
mixing = torch.randn(12, 5)
genres = (torch.tanh(plots @ mixing[:, :5]) + 0.2 * torch.randn(192, 5) > 0.1).float()
batches = DataLoader(TensorDataset(plots, genres), batch_size=48, shuffle=True)

class GenreTagger(nn.Module):
    def __init__(self, sizes=(12, 40, 40)):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:])])
        self.tags = nn.Linear(sizes[-1], 5)

    def forward(self, x):
        for block in self.blocks:
            x = nn.functional.leaky_relu(block(x))
        return self.tags(x)

tagger = GenreTagger()
optimizer = torch.optim.AdamW(tagger.parameters(), lr=5e-3, weight_decay=1e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=15, gamma=0.5)
history = []
""",
        forward="""
epoch_loss = 0.0
for plot, genre in batches:
    logits = tagger(plot)
    loss = binary_cross_entropy_with_logits(logits, genre)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(tagger.parameters(), 1.0)
    optimizer.step()
    epoch_loss += loss.item()
""",
        update="""
scheduler.step()
history.append(epoch_loss / len(batches))
""",
        steps=30,
        faults=(
            Fault(
                "genres in a plain list of layers",
                "unregistered",
                (
                    (
                        "nn.ModuleList([nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:])])",
                        "[nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:])]",
                    ),
                ),
                where=("blocks", "block", "list", "no optimizer"),
                source="Karpathy/common PyTorch mistakes, layers in a Python list; StackOverflow, ModuleList",
                hosts=ONE_CELL,
            ),
            Fault(
                "genres softmax for several labels",
                "output activation",
                (
                    (
                        "loss = binary_cross_entropy_with_logits(logits, genre)",
                        "loss = binary_cross_entropy(torch.softmax(logits, dim=1), genre)",
                    ),
                ),
                where=("softmax", "tags"),
                source="DeepFD 2022 and StackOverflow, softmax in multi-label classification",
                hosts=ONE_CELL,
            ),
            Fault(
                "genres weight decay of 50",
                "regularization",
                (("weight_decay=1e-3", "weight_decay=50.0"),),
                where=("weight_decay", "decay"),
                source="Humbatova 2020, Wrong regularisation / suboptimal hyperparameters; DEFault, hyperparameter "
                "faults",
                hosts=LOOPS,
            ),
            Fault(
                "genres schedule stepped per batch",
                "rate too small",
                (
                    ("    epoch_loss += loss.item()\n", "    epoch_loss += loss.item()\n    scheduler.step()\n"),
                    ("step_size=15, gamma=0.5", "step_size=2, gamma=0.1"),
                ),
                where=("schedul", r"\blr\b", "rate"),
                source="PyTorch forum, scheduler.step per batch instead of per epoch",
                hosts=LOOPS,
            ),
            Fault(
                "genres running loss keeps graphs",
                "kept graphs",
                (("    epoch_loss += loss.item()\n", "    epoch_loss += loss\n"),),
                where=("epoch_loss", "history", "item", "detach"),
                source="PyTorch FAQ, 'My model reports out of memory: total_loss += loss'",
                hosts=ONE_CELL,
            ),
        ),
    ),
)

PROBES = {
    "wine cultivars": "net.eval()\nscore=(net(X).argmax(1)==labels).float().mean()",
    "customer churn": "model.eval()\nx=torch.randn(500,6)\ns=x[:,0]*x[:,1]+.3*x[:,2]\nscore=((model(x)[:,0]>.5)==(s>0"
    ")).float().mean()",
    "digit templates": "score=(mlp(X).argmax(1)==Y).float().mean()",
    "spirals by hand": "score=((torch.tanh(points@W1+b1)@W2+b2).argmax(1)==classes).float().mean()",
    "movie genres": "score=((tagger(plots)>0)==(genres>0)).float().mean()",
}
