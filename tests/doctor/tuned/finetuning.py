"""Faults of fine-tuning: replaced heads, frozen bodies, assigned state, adapters, checkpoints."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "a new head on a pretrained net",
        "fine-tuning",
        setup="""
import torch
import torch.nn as nn

torch.manual_seed(18)

class Backbone(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(1, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU())
        self.layer4 = nn.Sequential(nn.Conv1d(8, 12, 3, padding=1), nn.BatchNorm1d(12), nn.ReLU())
        self.avgpool = nn.AdaptiveAvgPool1d(4)
        self.fc = nn.Linear(48, classes)

    def forward(self, x):
        x = self.layer4(self.stem(x))
        return self.fc(self.avgpool(x).flatten(1))

pretrained = Backbone()
weights = {name: value.clone() for name, value in pretrained.state_dict().items()}

signals = torch.randn(60, 1, 16)
labels = torch.arange(60) % 3
for i in range(60):
    signals[i, 0, 5 * labels[i]:5 * labels[i] + 5] += 2.5

model = Backbone()
model.load_state_dict(weights)
for param in model.parameters():
    param.requires_grad = False
for param in model.layer4.parameters():
    param.requires_grad = True
model.fc = nn.Linear(48, 3)
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()
model.train()
model.stem.eval()
""",
        forward="""
outputs = model(signals)
loss = criterion(outputs, labels)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        faults=(
            Fault(
                "head is replaced after the optimizer was made",
                "no optimizer",
                (
                    ("model.fc = nn.Linear(48, 3)\n", ""),
                    (
                        "criterion = nn.CrossEntropyLoss()\n",
                        "criterion = nn.CrossEntropyLoss()\nmodel.fc = nn.Linear(48, 3)\n",
                    ),
                ),
                where=(r"\bfc\b",),
                source="PyTorch forum, the last layer is replaced after the optimizer was made; pytorch/tutorials 2522",
            ),
            Fault(
                "load_state_dict(assign=True) after the optimizer was made",
                "no optimizer",
                (
                    (
                        "model.train()\n",
                        "model.load_state_dict({k: v.clone() for k, v in model.state_dict().items()}, assign=True)\n"
                        "model.train()\n",
                    ),
                ),
                where=("fc", "layer4"),
                source="PyTorch documentation of load_state_dict: make the optimizer after assign=True",
            ),
            Fault(
                "everything is frozen, the head too",
                "no gradient",
                (
                    ("model.fc = nn.Linear(48, 3)\n", ""),
                    (
                        "optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr",
                        "model.fc = nn.Linear(48, 3).requires_grad_(False)\n"
                        "for param in model.parameters():\n"
                        "    param.requires_grad = False\n"
                        "optimizer = torch.optim.SGD(model.parameters(), lr",
                    ),
                ),
                where=("fc", "layer4", "frozen", "requires_grad"),
                source="PyTorch forum, element 0 of tensors does not require grad after freezing",
            ),
            Fault(
                "the head is replaced before the freezing",
                "frozen",
                (
                    ("model.fc = nn.Linear(48, 3)\n", ""),
                    (
                        "model.load_state_dict(weights)\n",
                        "model.load_state_dict(weights)\nmodel.fc = nn.Linear(48, 3)\n",
                    ),
                ),
                where=(r"\bfc\b",),
                source="Lightning 19955, why is this parameter not trained",
            ),
            Fault(
                "statistics of the frozen stem change",
                "frozen but changing",
                (("model.train()\nmodel.stem.eval()\n", "model.train()\n"),),
                where=("stem", "batch_?norm", "running"),
                source="lightly 1438, virtex 16: batch norm statistics change though frozen",
            ),
            Fault(
                "momentum moves what is frozen",
                "frozen but changing",
                (
                    (
                        "outputs = model(signals)\n",
                        "if step == 10:\n"
                        "    for param in model.layer4.parameters():\n"
                        "        param.requires_grad = False\n"
                        "outputs = model(signals)\n",
                    ),
                    ("lr=0.05, momentum=0.9", "lr=0.05, momentum=0.9, weight_decay=0.01"),
                    ("optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)"),
                ),
                where=("layer4",),
                source="pytorch 66073, fairseq 4702: momentum and weight decay move frozen parameters",
                hosts=LOOPS,
            ),
            Fault(
                "features under no_grad",
                "cut",
                (
                    (
                        "        x = self.layer4(self.stem(x))\n",
                        "        with torch.no_grad():\n            x = self.layer4(self.stem(x))\n",
                    ),
                ),
                where=("layer4", "no_grad"),
                source="Zhang 2018, Confusion with computation model; PyTorch forum, feature extractor under no_grad",
            ),
            Fault(
                "the whole model trains in eval mode",
                "eval mode",
                (("model.train()\nmodel.stem.eval()\n", "model.eval()\n"),),
                where=("layer4", "eval", "batch_?norm"),
                source="Karpathy, most common mistakes: you forgot to toggle train/eval mode for the net",
            ),
            Fault(
                "unfrozen later, but in no optimizer",
                "no optimizer",
                (
                    ("for param in model.layer4.parameters():\n    param.requires_grad = True\n", ""),
                    (
                        "model.train()\n",
                        "for param in model.layer4.parameters():\n    param.requires_grad = True\nmodel.train()\n",
                    ),
                ),
                where=("layer4",),
                source="PyTorch forum, gradual unfreezing with an optimizer of filtered parameters",
            ),
            Fault(
                "the head is in no list of modules",
                "unregistered",
                (
                    ("model.fc = nn.Linear(48, 3)\n", 'model.fc = nn.Identity()\nheads = {"task": nn.Linear(48, 3)}\n'),
                    ("outputs = model(signals)", 'outputs = heads["task"](model(signals))'),
                ),
                where=("heads", "48", "linear", r"\b3\b"),
                source="PyTorch forum, modules in a dict are not registered; Islam 2019, Data flow bug",
            ),
        ),
    ),
    Program(
        "low rank adapters in a checkpoint",
        "LoRA",
        setup="""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(19)
dim, rank, layers = 24, 4, 3

class LoRALinear(nn.Module):
    def __init__(self, base, r, alpha=8):
        super().__init__()
        self.base = base
        self.lora_A = nn.Parameter(torch.randn(r, base.in_features) / base.in_features ** 0.5)
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))
        self.scaling = alpha / r

    def forward(self, x):
        return self.base(x) + self.scaling * (x @ self.lora_A.T @ self.lora_B.T)

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.proj = nn.Linear(dim, dim)
    def forward(self, x):
        return x + F.gelu(self.proj(self.norm(x)))

class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, dim)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.classifier = nn.Linear(dim, 2)
    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return self.classifier(x.mean(1))

base_model = Encoder()
base_model.requires_grad_(False)
for layer in base_model.layers:
    layer.proj = LoRALinear(layer.proj, rank)
base_model.classifier.requires_grad_(True)
trainable = [p for p in base_model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trainable, lr=1e-2)
ids = torch.randint(0, 20, (64, 6))
target = ((ids == 3) | (ids == 7) | (ids == 12)).any(1).long()
""",
        forward="""
logits = base_model(ids)
loss = F.cross_entropy(logits, target)
""",
        update="""
loss.backward()
optimizer.step()
optimizer.zero_grad()
""",
        steps=30,
        faults=(
            Fault(
                "reentrant checkpoint of frozen inputs",
                "checkpoint",
                (("use_reentrant=False", "use_reentrant=True"),),
                where=("checkpoint", "lora", "reentrant", "layers"),
                source="transformers 42489, peft 137 and 1142: LoRA with gradient checkpointing",
            ),
            Fault(
                "both factors are zero",
                "initialization",
                (("torch.randn(r, base.in_features) / base.in_features ** 0.5", "torch.zeros(r, base.in_features)"),),
                where=("lora",),
                source="Humbatova 2020, Wrong weights initialisation",
            ),
            Fault(
                "the adapters are frozen with the rest",
                "frozen",
                (
                    (
                        "base_model.classifier.requires_grad_(True)\n",
                        "base_model.requires_grad_(False)\nbase_model.classifier.requires_grad_(True)\n",
                    ),
                ),
                where=("lora",),
                source="peft issues, no trainable adapter; Lightning 19955",
            ),
            Fault(
                "only the adapters are in the optimizer",
                "no optimizer",
                (
                    (
                        "trainable = [p for p in base_model.parameters() if p.requires_grad]",
                        'trainable = [p for n, p in base_model.named_parameters() if "lora_" in n]',
                    ),
                ),
                where=("classifier",),
                source="pytorch/tutorials 2522; peft's modules_to_save",
            ),
            Fault(
                "zero_grad before the step of the adapters",
                "early call",
                (("optimizer.step()\noptimizer.zero_grad()\n", "optimizer.zero_grad()\noptimizer.step()\n"),),
                where=("zero_grad", "optimizer"),
                source="Humbatova 2020, Wrong position of API call",
            ),
        ),
    ),
)
