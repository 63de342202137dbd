"""Fresh faults: graphs, distillation, fine-tuning, segmentation and detection."""

from tests.doctor.program import Fault, Host, Program

ONE_CELL: tuple[Host, ...] = ("whole", "loop", "step", "function")
LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "citation GCN",
        "graph network",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(27)
nodes, topics = 120, 4
topic = torch.randint(0, topics, (nodes,))
chance = torch.where(topic[:, None] == topic[None, :], 0.15, 0.01)
A = (torch.rand(nodes, nodes) < chance).float().triu(1)
A = A + A.t() + torch.eye(nodes)
degree = A.sum(dim=1)
A_hat = A / torch.sqrt(degree[:, None] * degree[None, :])
X = F.one_hot(topic, topics).float() @ torch.randn(topics, 24) + 1.5 * torch.randn(nodes, 24)
train_mask = torch.rand(nodes) < 0.5

class GraphConv(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))
        self.bias = nn.Parameter(torch.zeros(n_out))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, h):
        return A_hat @ (h @ self.weight) + self.bias

class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.gc1 = GraphConv(24, 16)
        self.gc2 = GraphConv(16, topics)

    def forward(self, h):
        h = F.relu(self.gc1(h))
        h = F.dropout(h, p=0.3, training=self.training)
        return F.log_softmax(self.gc2(h), dim=1)

gcn = GCN()
optimizer = torch.optim.Adam(gcn.parameters(), lr=0.02, weight_decay=5e-4)
""",
        forward="""
gcn.train()
output = gcn(X)
loss = F.nll_loss(output[train_mask], topic[train_mask])
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
gcn.eval()
with torch.no_grad():
    guess = gcn(X).argmax(dim=1)
test_accuracy = (guess == topic)[~train_mask].float().mean().item()
""",
        steps=60,
        faults=(
            Fault(
                "gcn weight as a plain tensor",
                "unregistered",
                (("self.weight = nn.Parameter(torch.empty(n_in, n_out))", "self.weight = torch.empty(n_in, n_out)"),),
                where=("weight", "gc1", "gc2"),
                source="PyTorch forum, tensor attribute instead of nn.Parameter",
            ),
            Fault(
                "gcn weights of zero",
                "initialization",
                (("nn.init.xavier_uniform_(self.weight)", "nn.init.zeros_(self.weight)"),),
                where=("weight", "gc1", "gc2"),
                source="DeepLocalize 2021, zero weights; Humbatova 2020, Wrong weights initialization",
            ),
            Fault(
                "gcn weight decay of ten",
                "regularization",
                (("weight_decay=5e-4", "weight_decay=10.0"),),
                where=("decay",),
                source="Humbatova 2020, Wrong regularisation",
                hosts=LOOPS,
            ),
            Fault(
                "gcn dropout 0.98",
                "dropout",
                (("p=0.3, training=self.training", "p=0.98, training=self.training"),),
                where=("dropout",),
                source="UMLAUT 2021, dropout rate too high",
            ),
        ),
    ),
    Program(
        "small student",
        "distillation",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(33)
inputs = torch.randn(300, 10)
hidden_rule = torch.randn(10, 5)
labels = (torch.sin(inputs) @ hidden_rule).argmax(dim=1)

teacher = nn.Sequential(nn.Linear(10, 96), nn.ReLU(), nn.Linear(96, 5))
warm = torch.optim.Adam(teacher.parameters(), lr=0.01)
for _ in range(80):
    warm.zero_grad()
    F.cross_entropy(teacher(inputs), labels).backward()
    warm.step()
teacher.eval()
teacher.requires_grad_(False)

student = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 5))
optimizer = torch.optim.SGD(student.parameters(), lr=0.2, momentum=0.9)
temperature, alpha = 3.0, 0.7
""",
        forward="""
pick = torch.randint(0, 300, (100,))
with torch.no_grad():
    teacher_logits = teacher(inputs[pick])
student_logits = student(inputs[pick])
soft = F.kl_div(
    F.log_softmax(student_logits / temperature, dim=1),
    F.softmax(teacher_logits / temperature, dim=1),
    reduction="batchmean",
) * temperature**2
hard = F.cross_entropy(student_logits, labels[pick])
loss = alpha * soft + (1 - alpha) * hard
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=60,
        faults=(
            Fault(
                "student kl of probabilities",
                "loss input",
                (
                    (
                        "F.log_softmax(student_logits / temperature, dim=1)",
                        "F.softmax(student_logits / temperature, dim=1)",
                    ),
                ),
                where=("kl_div", "softmax"),
                source="PyTorch forum, negative kl_div: input must be log-probabilities",
            ),
            Fault(
                "student learns under no_grad",
                "cut",
                (("student_logits = student(inputs[pick])\n", "    student_logits = student(inputs[pick])\n"),),
                where=("no_grad", "student"),
                source="PyTorch forum, 'does not require grad': forward inside no_grad by indentation",
            ),
            Fault(
                "student's optimizer holds the teacher",
                "no optimizer",
                (("torch.optim.SGD(student.parameters()", "torch.optim.SGD(teacher.parameters()"),),
                where=("student", "teacher"),
                source="Humbatova 2020, Wrong API usage: optimizer of the wrong network",
            ),
            Fault(
                "student takes other rows than the teacher",
                "data",
                (
                    (
                        "student_logits = student(inputs[pick])",
                        "student_logits = student(inputs[torch.randint(0, 300, (100,))])",
                    ),
                ),
                where=("inputs", "label", "target", "pick"),
                source="Humbatova 2020, Wrong labels / misaligned data shuffling",
                hosts=LOOPS,
            ),
            Fault(
                "student sigmoid on the scores",
                "output activation",
                (("nn.ReLU(), nn.Linear(24, 5))", "nn.ReLU(), nn.Linear(24, 5), nn.Sigmoid())"),),
                where=("sigmoid", "student"),
                source="DeepFD 2022, sigmoid in a multi-class problem",
            ),
        ),
    ),
    Program(
        "low rank adapters",
        "fine-tuning",
        setup="""
import torch
from torch import nn

torch.manual_seed(44)
old_x = torch.randn(200, 8)
old_y = torch.sin(old_x[:, :1]) + 0.5 * old_x[:, 1:2]
base = nn.Sequential(nn.Linear(8, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
pre = torch.optim.Adam(base.parameters(), lr=0.01)
for _ in range(60):
    pre.zero_grad()
    nn.functional.mse_loss(base(old_x), old_y).backward()
    pre.step()
for p in base.parameters():
    p.requires_grad = False

class LoRALinear(nn.Module):
    def __init__(self, linear, rank=4):
        super().__init__()
        self.linear = linear
        self.A = nn.Parameter(torch.randn(rank, linear.in_features) / linear.in_features**0.5)
        self.B = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x):
        return self.linear(x) + x @ self.A.t() @ self.B.t()

base[0] = LoRALinear(base[0])
base[2] = LoRALinear(base[2])
base[4] = nn.Linear(48, 1)
trainable = [p for p in base.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trainable, lr=0.01, weight_decay=0.0)
new_x = torch.randn(200, 8)
new_y = torch.cos(new_x[:, 2:3]) - 0.7 * new_x[:, 3:4] * new_x[:, 4:5]
""",
        forward="""
answer = base(new_x)
loss = nn.functional.mse_loss(answer, new_y)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=100,
        faults=(
            Fault(
                "lora both factors zero",
                "initialization",
                (
                    (
                        "torch.randn(rank, linear.in_features) / linear.in_features**0.5",
                        "torch.zeros(rank, linear.in_features)",
                    ),
                ),
                where=(r"\.A\b", r"\.B\b", "LoRA", "0\\.A", "0\\.B"),
                source="LoRA implementations, issue: A and B both zero never learn",
            ),
            Fault(
                "lora adapters after the optimizer",
                "no optimizer",
                (
                    ("base[0] = LoRALinear(base[0])\nbase[2] = LoRALinear(base[2])\nbase[4]", "base[4]"),
                    (
                        "lr=0.01, weight_decay=0.0)",
                        "lr=0.01, weight_decay=0.0)\nbase[0] = LoRALinear(base[0])\nbase[2] = LoRALinear(base[2])",
                    ),
                ),
                where=(r"\.A\b", r"\.B\b", "LoRA", "optimizer"),
                source="PyTorch forum, layers replaced after the optimizer was made",
            ),
            Fault(
                "lora everything frozen but the head",
                "frozen",
                (
                    (
                        "trainable = [",
                        "for p in list(base.parameters())[:8]:\n    p.requires_grad = False\ntrainable = [",
                    ),
                ),
                where=(r"\.A\b", r"\.B\b", "LoRA", "requires_grad"),
                source="peft issue, adapters have requires_grad False after loading",
            ),
            Fault(
                "lora relu on the new head",
                "output activation",
                (("base[4] = nn.Linear(48, 1)", "base[4] = nn.Sequential(nn.Linear(48, 1), nn.ReLU())"),),
                where=("relu", r"\b4\b"),
                source="DeepFD 2022 / DeepLocalize, relu output for negative targets",
            ),
            Fault(
                "lora targets without their column",
                "broadcast",
                (
                    (
                        "new_y = torch.cos(new_x[:, 2:3]) - 0.7 * new_x[:, 3:4] * new_x[:, 4:5]",
                        "new_y = torch.cos(new_x[:, 2]) - 0.7 * new_x[:, 3] * new_x[:, 4]",
                    ),
                ),
                where=("200", "mse", "new_y", "answer"),
                source="PyTorch warning, target size different from input size",
            ),
        ),
    ),
    Program(
        "blob segmentation",
        "segmentation",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(52)
xs = torch.arange(16).float()
cx, cy = 4 + 8 * torch.rand(40, 1, 1), 4 + 8 * torch.rand(40, 1, 1)
radius = 2 + 2 * torch.rand(40, 1, 1)
masks = (((xs[None, None, :] - cx) ** 2 + (xs[None, :, None] - cy) ** 2) < radius**2).float().unsqueeze(1)
scans = masks + 0.6 * torch.randn(40, 1, 16, 16)
scans = (scans - scans.mean()) / scans.std()

class UNetSmall(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.down2 = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.up = nn.Sequential(nn.Conv2d(24, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.head = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        fine = self.down1(x)
        coarse = self.down2(F.max_pool2d(fine, 2))
        coarse = F.interpolate(coarse, scale_factor=2)
        return self.head(self.up(torch.cat([fine, coarse], dim=1)))

def dice_loss(probability, mask):
    overlap = (probability * mask).sum(dim=(1, 2, 3))
    total = probability.sum(dim=(1, 2, 3)) + mask.sum(dim=(1, 2, 3))
    return 1 - ((2 * overlap + 1) / (total + 1)).mean()

unet = UNetSmall()
optimizer = torch.optim.Adam(unet.parameters(), lr=0.01)
""",
        forward="""
optimizer.zero_grad()
total_loss = 0.0
for part in range(2):
    chosen = torch.randperm(40)[:10]
    logits = unet(scans[chosen])
    bce = F.binary_cross_entropy_with_logits(logits, masks[chosen])
    dice = dice_loss(torch.sigmoid(logits), masks[chosen])
    loss = (bce + dice) / 2
    loss.backward()
    total_loss += loss.item()
""",
        update="""
optimizer.step()
iou = ((logits > 0) & (masks[chosen] > 0)).sum() / ((logits > 0) | (masks[chosen] > 0)).sum()
""",
        steps=30,
        faults=(
            Fault(
                "segmentation softmax over one channel",
                "output activation",
                (
                    (
                        "return self.head(self.up(torch.cat([fine, coarse], dim=1)))",
                        "return F.softmax(self.head(self.up(torch.cat([fine, coarse], dim=1))), dim=1)",
                    ),
                ),
                where=("softmax", "head"),
                source="StackOverflow, softmax with a single output channel",
                hosts=ONE_CELL,
            ),
            Fault(
                "segmentation thresholded dice alone",
                "cut",
                (
                    (
                        "dice_loss(torch.sigmoid(logits), masks[chosen])",
                        "dice_loss((torch.sigmoid(logits) > 0.5).float(), masks[chosen])",
                    ),
                    ("    bce = F.binary_cross_entropy_with_logits(logits, masks[chosen])\n", ""),
                    ("loss = (bce + dice) / 2", "loss = dice"),
                ),
                where=("dice", "overlap", r"\bgt\b", "> 0.5", "probability"),
                source="PyTorch forum, thresholded mask in a dice loss",
                hosts=ONE_CELL,
            ),
            Fault(
                "segmentation dice grows",
                "sign",
                (
                    (
                        "return 1 - ((2 * overlap + 1) / (total + 1)).mean()",
                        "return ((2 * overlap + 1) / (total + 1)).mean()",
                    ),
                    ("    bce = F.binary_cross_entropy_with_logits(logits, masks[chosen])\n", ""),
                    ("loss = (bce + dice) / 2", "loss = dice"),
                ),
                where=("dice", "sign", "maximi"),
                source="StackOverflow, dice coefficient used as the loss",
                hosts=LOOPS,
            ),
            Fault(
                "segmentation step before backward",
                "early call",
                (
                    (
                        "optimizer.zero_grad()\ntotal_loss = 0.0",
                        "optimizer.zero_grad()\noptimizer.step()\ntotal_loss = 0.0",
                    ),
                    ("\noptimizer.step()\niou", "\niou"),
                ),
                where=("step", "zero_grad"),
                source="TrainCheck 2025 and Humbatova 2020, Wrong API order",
                hosts=ONE_CELL,
            ),
            Fault(
                "segmentation masks of 0 and 255",
                "target",
                (
                    ("< radius**2).float().unsqueeze(1)", "< radius**2).float().unsqueeze(1) * 255"),
                    ("scans = masks + 0.6", "scans = masks / 255 + 0.6"),
                ),
                where=("masks", "target", "255"),
                source="PyTorch forum, negative BCE: masks loaded as 0/255",
                hosts=ONE_CELL,
            ),
            Fault(
                "segmentation first block frozen by no_grad",
                "cut",
                (
                    (
                        "        fine = self.down1(x)\n",
                        "        with torch.no_grad():\n            fine = self.down1(x)\n",
                    ),
                ),
                where=("down1", "no_grad"),
                source="PyTorch forum, no_grad around the backbone",
                hosts=ONE_CELL,
            ),
        ),
    ),
    Program(
        "box detector",
        "object regression",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(61)
count = 160
kind = torch.randint(0, 3, (count,))
boxes = torch.rand(count, 4) * 0.4 + torch.tensor([0.1, 0.1, 0.2, 0.2])
pattern = torch.randn(3, 20)
projection = torch.randn(4, 20)
features = pattern[kind] + 3 * (boxes - boxes.mean(0)) @ projection + 0.2 * torch.randn(count, 20)
features = (features - features.mean(0)) / features.std(0)

class Clamp01(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(0.0, 1.0)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        inside = (x > 0.0) & (x < 1.0)
        return torch.where(inside, grad_output, 0.1 * grad_output)

class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.box_head = nn.Linear(64, 4)
        self.class_head = nn.Linear(64, 3)

    def forward(self, x):
        h = self.trunk(x)
        return Clamp01.apply(0.5 + self.box_head(h)), self.class_head(h)

detector = Detector()
optimizer = torch.optim.Adam(detector.parameters(), lr=3e-3)
running = 0.0
""",
        forward="""
index = torch.randint(0, count, (64,))
predicted_boxes, scores = detector(features[index])
box_loss = F.smooth_l1_loss(predicted_boxes, boxes[index], beta=0.1)
class_loss = F.cross_entropy(scores, kind[index])
loss = 10 * box_loss + class_loss
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
running += loss.item()
""",
        steps=80,
        faults=(
            Fault(
                "detector box loss forgotten",
                "unused",
                (("loss = 10 * box_loss + class_loss", "loss = class_loss"),),
                where=("box_loss", "box_head"),
                source="Humbatova 2020, Wrong loss function calculation: missing term",
            ),
            Fault(
                "detector backward returns zeros",
                "custom function",
                (("return torch.where(inside, grad_output, 0.1 * grad_output)", "return torch.zeros_like(x)"),),
                where=("clamp01", "box_head"),
                source="PyTorch forum, custom autograd.Function with a zero gradient",
            ),
            Fault(
                "detector backward returns None",
                "custom function",
                (("return torch.where(inside, grad_output, 0.1 * grad_output)", "return None"),),
                where=("clamp01", "box_head"),
                source="PyTorch forum, custom autograd.Function returns None for its input",
            ),
            Fault(
                "detector backward forgets grad_output",
                "custom function",
                (
                    (
                        "return torch.where(inside, grad_output, 0.1 * grad_output)",
                        "return torch.where(inside, 1.0, 0.1)",
                    ),
                ),
                where=("clamp01", "box_head"),
                source="PyTorch forum, backward of a custom Function without the chain rule",
            ),
            Fault(
                "detector relu on the box offsets",
                "output activation",
                (("self.box_head = nn.Linear(64, 4)", "self.box_head = nn.Sequential(nn.Linear(64, 4), nn.ReLU())"),),
                where=("relu", "box_head"),
                source="DeepFD 2022, relu on an offset that may be negative",
            ),
            Fault(
                "detector trunk dead",
                "dead units",
                (("detector = Detector()", "detector = Detector()\nnn.init.constant_(detector.trunk[2].bias, -20.0)"),),
                where=("trunk", "relu", "bias"),
                source="AUTOTRAINER 2021, dying ReLU; DeepLocalize 2021",
            ),
        ),
    ),
)

PROBES = {
    "citation GCN": "gcn.eval()\nscore=(gcn(X).argmax(1)==topic)[~train_mask].float().mean()",
    "small student": "score=(student(inputs).argmax(1)==labels).float().mean()",
    "low rank adapters": "score=(base(new_x).flatten()-new_y.flatten()).pow(2).mean()",
    "blob segmentation": "l=unet(scans)>0\nm=masks>0\nscore=(l&m).sum()/(l|m).sum()",
    "box detector": "b,s=detector(features)\nscore=(s.argmax(1)==kind).float().mean()*10+(b-boxes).abs().mean()",
}
