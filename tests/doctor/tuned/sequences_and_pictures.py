"""Fresh faults: pictures, sequences and text."""

from tests.doctor.program import Fault, Host, Program

ONE_CELL: tuple[Host, ...] = ("whole", "loop", "step", "function")
LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "coloured shapes",
        "classifier",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
kinds = torch.randint(0, 4, (144,))
photos = 0.45 * torch.randn(144, 12, 12, 3)
for i, kind in enumerate(kinds.tolist()):
    line = int(torch.randint(2, 10, (1,)))
    channel = kind % 2
    if kind < 2:
        photos[i, line, :, channel] += 2.0
    else:
        photos[i, :, line, channel] += 2.0
photos = photos.permute(0, 3, 1, 2)
train_set = TensorDataset(photos[:96], kinds[:96])
train_loader = DataLoader(train_set, batch_size=24, shuffle=True)

class ShapeNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(16)
        self.fc = nn.Linear(16 * 3 * 3, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return self.fc(torch.flatten(x, 1))

model = ShapeNet(4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
""",
        forward="""
model.train()
for images, labels in train_loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
""",
        update="""
model.eval()
with torch.no_grad():
    val_accuracy = (model(photos[96:]).argmax(1) == kinds[96:]).float().mean().item()
""",
        steps=20,
        faults=(
            Fault(
                "shapes never back to train",
                "eval mode",
                (("model.train()\n", ""),),
                where=("eval", "bn1", "bn2"),
                source="Common mistakes in PyTorch (Karpathy, 'forgot to toggle train/eval'); TrainCheck 2025, eval "
                "mode",
                hosts=LOOPS,
            ),
            Fault(
                "shapes reshape for permute",
                "wrong dimension",
                (("photos = photos.permute(0, 3, 1, 2)", "photos = photos.reshape(144, 3, 12, 12)"),),
                where=("photos", "reshape", "images"),
                source="StackOverflow, permute vs. view/reshape for NHWC images; Humbatova 2020, Wrong shape of input",
                hosts=("whole", "function"),
            ),
            Fault(
                "shapes relu after the classifier",
                "output activation",
                (("return self.fc(torch.flatten(x, 1))", "return F.relu(self.fc(torch.flatten(x, 1)))"),),
                where=("relu", r"\bfc\b"),
                source="DeepFD 2022 / StackOverflow, relu on the last layer of a CNN",
                hosts=ONE_CELL,
            ),
            Fault(
                "shapes optimizer before the new head",
                "no optimizer",
                (
                    ("model = ShapeNet(4)\n", "model = ShapeNet(10)\n"),
                    ("lr=0.005)", "lr=0.005)\nmodel.fc = nn.Linear(144, 4)"),
                ),
                where=(r"\bfc\b",),
                source="PyTorch forum, layer replaced after the optimizer was made; Humbatova 2020, Wrong API usage",
                hosts=ONE_CELL,
            ),
            Fault(
                "shapes conv frozen by copy and paste",
                "frozen",
                (
                    (
                        "model = ShapeNet(4)\n",
                        "model = ShapeNet(4)\nfor parameter in list(model.parameters())[:8]:\n    "
                        "parameter.requires_grad = False\n",
                    ),
                ),
                where=("conv1", "conv2", "bn1", "bn2", "requires_grad"),
                source="StackOverflow, loss does not fall after freezing; TrainCheck 2025, frozen parameters",
                hosts=ONE_CELL,
            ),
        ),
    ),
    Program(
        "tide forecast",
        "time series",
        setup="""
import torch
from torch import nn

torch.manual_seed(8)
hours = torch.arange(0, 1300).float()
tide = torch.sin(hours / 3.1) + 0.5 * torch.sin(hours / 7.7)
tide = (tide - tide.mean()) / tide.std()
streams = torch.stack([tide[start : start + 481] for start in range(0, 800, 100)])

class TideLSTM(nn.Module):
    def __init__(self, hidden_size=24):
        super().__init__()
        self.lstm = nn.LSTM(input_size=1, hidden_size=hidden_size, batch_first=True)
        self.linear = nn.Linear(hidden_size, 1)

    def forward(self, window, state):
        out, state = self.lstm(window, state)
        return self.linear(out).squeeze(-1), state

model = TideLSTM()
mse = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
state = None
""",
        forward="""
begin = (step * 12) % 480
if begin == 0:
    state = None
x = streams[:, begin : begin + 12].unsqueeze(-1)
y = streams[:, begin + 1 : begin + 13]
if state is not None:
    state = tuple(s.detach() for s in state)
forecast, state = model(x, state)
loss = mse(forecast, y)
""",
        update="""
optimizer.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(model.parameters(), max_norm=5.0)
optimizer.step()
""",
        steps=100,
        faults=(
            Fault(
                "tide state carries its graph",
                "second backward",
                (("    state = tuple(s.detach() for s in state)\n", "    state = tuple(s for s in state)\n"),),
                where=("state", "detach", "lstm", "second time"),
                source="PyTorch forum, 'Trying to backward through the graph a second time' with an LSTM's hidden "
                "state",
                hosts=LOOPS,
            ),
            Fault(
                "tide batch_first forgotten",
                "wrong dimension",
                (("hidden_size=hidden_size, batch_first=True)", "hidden_size=hidden_size)"),),
                where=("lstm", "batch_first"),
                source="PyTorch forum / StackOverflow, batch_first; Humbatova 2020, Wrong input shape",
                hosts=("whole", "loop", "function"),
            ),
            Fault(
                "tide relu at the output",
                "output activation",
                (
                    (
                        "return self.linear(out).squeeze(-1), state",
                        "return torch.relu(self.linear(out)).squeeze(-1), state",
                    ),
                ),
                where=("relu", "linear"),
                source="DeepLocalize/DeepFD, relu output with negative targets",
            ),
            Fault(
                "tide in centimetres above a datum",
                "input scale",
                (("tide = (tide - tide.mean()) / tide.std()", "tide = 450 + 120 * tide"),),
                where=(r"\bx\b", r"\by\b", "tide", "streams", "input", "target"),
                source="StackOverflow, LSTM predicts the mean: series not normalised; Humbatova 2020, Missing "
                "preprocessing",
            ),
            Fault(
                "tide rate of three for Adam",
                "rate too large",
                (("lr=0.01", "lr=3.0"),),
                where=(r"\blr\b", "rate"),
                source="AUTOTRAINER 2021; StackOverflow, Adam with a rate above one",
                hosts=LOOPS,
            ),
            Fault(
                "tide sigmoid at the output",
                "output activation",
                (
                    (
                        "self.linear = nn.Linear(hidden_size, 1)",
                        "self.linear = nn.Sequential(nn.Linear(hidden_size, 1), nn.Sigmoid())",
                    ),
                ),
                where=("sigmoid", "linear"),
                source="DeepFD 2022, sigmoid output for a regression with standardised targets",
            ),
        ),
    ),
    Program(
        "review sentiment",
        "text classifier",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(4)
vocabulary, length = 40, 10
reviews = torch.randint(0, vocabulary, (240, length))
good = (reviews < 12).sum(1)
bad = ((reviews >= 12) & (reviews < 24)).sum(1)
ratings = (good > bad).long() + (good >= bad).long()
pretrained = 0.3 * torch.randn(vocabulary, 16)

class SentimentGRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(pretrained, freeze=False)
        self.gru = nn.GRU(16, 32, batch_first=True)
        self.classify = nn.Linear(32, 3)

    def forward(self, tokens):
        vectors = self.embedding(tokens)
        outputs, last = self.gru(vectors)
        return F.log_softmax(self.classify(last[0]), dim=1)

net = SentimentGRU()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
order = torch.randperm(240)
""",
        forward="""
if step % 6 == 0:
    order = torch.randperm(240)
picked = order[step % 6 * 40 : step % 6 * 40 + 40]
log_probs = net(reviews[picked])
loss = F.nll_loss(log_probs, ratings[picked])
""",
        update="""
net.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=72,
        faults=(
            Fault(
                "sentiment embedding frozen by default",
                "frozen",
                (("from_pretrained(pretrained, freeze=False)", "from_pretrained(pretrained)"),),
                where=("embedding", "freeze"),
                source="PyTorch forum, Embedding.from_pretrained freezes by default",
            ),
            Fault(
                "sentiment softmax without log",
                "loss input",
                (("F.log_softmax(self.classify(last[0]), dim=1)", "F.softmax(self.classify(last[0]), dim=1)"),),
                where=("softmax", "nll"),
                source="PyTorch forum, softmax with NLLLoss; NeuraLint",
            ),
            Fault(
                "sentiment log_softmax over the batch",
                "wrong dimension",
                (("F.log_softmax(self.classify(last[0]), dim=1)", "F.log_softmax(self.classify(last[0]), dim=0)"),),
                where=("softmax",),
                source="StackOverflow, dim of log_softmax; UMLAUT kind, softmax axis",
            ),
            Fault(
                "sentiment sign of the likelihood",
                "sign",
                (
                    (
                        "loss = F.nll_loss(log_probs, ratings[picked])",
                        "loss = log_probs.gather(1, ratings[picked].unsqueeze(1)).mean()",
                    ),
                ),
                where=("sign", "gather", "maximi", "negative"),
                source="Humbatova 2020, Wrong loss function calculation (missing minus)",
                hosts=LOOPS,
            ),
            Fault(
                "sentiment sorted by rating",
                "data",
                (
                    ("if step % 6 == 0:\n    order = torch.randperm(240)\n", ""),
                    ("order = torch.randperm(240)", "order = torch.argsort(ratings)"),
                ),
                where=("ratings", "target", "class", "label", "shuffl"),
                source="Humbatova 2020, Not shuffled data; StackOverflow, batches of one class",
            ),
            Fault(
                "sentiment state through a list",
                "cut",
                (("self.classify(last[0])", "self.classify(torch.tensor(last[0].tolist()))"),),
                where=("last", "tolist", "gru", "embedding"),
                source="PyTorch forum, new tensor from .tolist()/numpy breaks the graph",
            ),
            Fault(
                "sentiment rate of 1e-7",
                "rate too small",
                (("lr=0.01", "lr=1e-7"),),
                where=(r"\blr\b", "rate"),
                source="DeepFD 2022, learning rate; AUTOTRAINER 2021, slow convergence",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "tiny language model",
        "transformer",
        setup="""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(13)
V, T, D, H = 12, 12, 32, 4
motif = torch.randint(0, V, (16, 4))
corpus = motif.repeat(1, 4)[:, : T + 1]

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(D, 3 * D)
        self.proj = nn.Linear(D, D)
        self.register_buffer("future", torch.triu(torch.ones(T, T), diagonal=1).bool())

    def forward(self, x):
        B = x.size(0)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = [z.view(B, T, H, D // H).transpose(1, 2) for z in (q, k, v)]
        att = q @ k.transpose(-2, -1) / math.sqrt(D // H)
        att = att.masked_fill(self.future, float("-inf"))
        att = torch.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).reshape(B, T, D)
        return self.proj(y)

class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(V, D)
        self.wpe = nn.Embedding(T, D)
        self.ln1, self.ln2, self.lnf = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn = Attention()
        self.mlp = nn.Sequential(nn.Linear(D, 64), nn.GELU(), nn.Linear(64, D))
        self.head = nn.Linear(D, V)

    def forward(self, idx):
        x = self.wte(idx) + self.wpe(torch.arange(T))
        x = x + self.attn(self.ln1(x))
        x = x + self.mlp(self.ln2(x))
        return self.head(self.lnf(x))

gpt = GPT()
optimizer = torch.optim.AdamW(gpt.parameters(), lr=5e-3, weight_decay=0.01)
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: min(1.0, (k + 1) / 10))
""",
        forward="""
logits = gpt(corpus[:, :-1])
loss = F.cross_entropy(logits.reshape(-1, V), corpus[:, 1:].reshape(-1))
""",
        update="""
optimizer.zero_grad()
loss.backward()
torch.nn.utils.clip_grad_norm_(gpt.parameters(), 1.0)
optimizer.step()
warmup.step()
""",
        steps=60,
        faults=(
            Fault(
                "gpt softmax over the heads",
                "attention",
                (("att = torch.softmax(att, dim=-1)", "att = torch.softmax(att, dim=1)"),),
                where=("softmax", "attn", "attention"),
                source="StackOverflow, softmax dimension of attention; Humbatova 2020, Wrong tensor shape",
            ),
            Fault(
                "gpt mask hides the diagonal",
                "attention",
                (("diagonal=1)", "diagonal=0)"),),
                where=("masked_fill", "softmax", "attn", "future", "nan"),
                source="PyTorch forum, nan from rows that are masked completely",
            ),
            Fault(
                "gpt logits transposed for targets",
                "wrong dimension",
                (("logits.reshape(-1, V)", "logits.transpose(0, 1).reshape(-1, V)"),),
                where=("transpose", "reshape", "logits"),
                source="PyTorch forum, view/transpose mixes batch and time before cross entropy",
            ),
            Fault(
                "gpt integer warm-up",
                "rate too small",
                (("min(1.0, (k + 1) / 10)", "min(1.0, (k + 1) // 1000)"),),
                where=("rate", r"\blr\b", "warmup", "schedul"),
                source="PyTorch forum, LambdaLR multiplies by 0; Humbatova 2020, Suboptimal learning rate",
            ),
            Fault(
                "gpt zero_grad after backward",
                "early call",
                (("optimizer.zero_grad()\nloss.backward()\n", "loss.backward()\noptimizer.zero_grad()\n"),),
                where=("zero_grad",),
                source="TrainCheck 2025, zero_grad between backward and step; Humbatova 2020, Wrong API order",
            ),
            Fault(
                "gpt blocks under no_grad",
                "cut",
                (
                    (
                        "        x = x + self.attn(self.ln1(x))\n        x = x + self.mlp(self.ln2(x))\n",
                        "        with torch.no_grad():\n            x = x + self.attn(self.ln1(x))\n            x = "
                        "x + self.mlp(self.ln2(x))\n",
                    ),
                ),
                where=("no_grad", "attn", "mlp", "wte"),
                source="PyTorch forum, torch.no_grad around a part of the forward",
            ),
        ),
    ),
    Program(
        "number reversal",
        "seq2seq",
        setup="""
import torch
import torch.nn as nn

torch.manual_seed(6)
source = torch.randint(1, 9, (64, 4))
target = torch.flip(source, dims=[1])
SOS = 0

class EncoderRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, 16)
        self.gru = nn.GRU(16, 48, batch_first=True)

    def forward(self, tokens):
        _, hidden = self.gru(self.embedding(tokens))
        return hidden

class DecoderRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, 16)
        self.gru = nn.GRU(16, 48, batch_first=True)
        self.out = nn.Linear(48, 9)
        self.softmax = nn.LogSoftmax(dim=-1)

    def forward(self, token, hidden):
        output, hidden = self.gru(self.embedding(token), hidden)
        return self.softmax(self.out(output[:, 0])), hidden

encoder, decoder = EncoderRNN(), DecoderRNN()
encoder_optimizer = torch.optim.Adam(encoder.parameters(), lr=0.01)
decoder_optimizer = torch.optim.Adam(decoder.parameters(), lr=0.01)
criterion = nn.NLLLoss()
""",
        forward="""
hidden = encoder(source)
token = torch.full((64, 1), SOS)
loss = 0
for position in range(4):
    words, hidden = decoder(token, hidden)
    loss = loss + criterion(words, target[:, position])
    token = target[:, position : position + 1]
loss = loss / 4
""",
        update="""
encoder_optimizer.zero_grad()
decoder_optimizer.zero_grad()
loss.backward()
encoder_optimizer.step()
decoder_optimizer.step()
""",
        steps=45,
        faults=(
            Fault(
                "reversal decoder optimizer holds the encoder",
                "no optimizer",
                (
                    (
                        "decoder_optimizer = torch.optim.Adam(decoder.parameters()",
                        "decoder_optimizer = torch.optim.Adam(encoder.parameters()",
                    ),
                ),
                where=("decoder",),
                source="Humbatova 2020, Wrong API usage: optimizer of the wrong network; PyTorch forum",
            ),
            Fault(
                "reversal encoder detached",
                "cut",
                (("hidden = encoder(source)", "hidden = encoder(source).detach()"),),
                where=("encoder", "detach", "hidden"),
                source="PyTorch forum, seq2seq encoder gets no gradient",
            ),
            Fault(
                "reversal predicts from argmax tokens scored",
                "cut",
                (
                    (
                        "loss = loss + criterion(words, target[:, position])",
                        "loss = loss + (words.argmax(1) - target[:, position]).float().abs().mean()",
                    ),
                ),
                where=("argmax",),
                source="StackOverflow, token error as a loss; PyTorch forum, argmax is not differentiable",
            ),
            Fault(
                "reversal softmax for NLLLoss",
                "loss input",
                (("nn.LogSoftmax(dim=-1)", "nn.Softmax(dim=-1)"),),
                where=("softmax", "nll", "criterion"),
                source="PyTorch seq2seq tutorial mistakes, softmax with NLLLoss; NeuraLint",
            ),
            Fault(
                "reversal decoder never stepped",
                "no step",
                (("decoder_optimizer.step()", "pass"),),
                where=("decoder", "step"),
                source="Humbatova 2020, Missing API call (step); UMLAUT kind",
            ),
        ),
    ),
)

PROBES = {
    "coloured shapes": "model.eval()\nscore=(model(photos[96:]).argmax(1)==kinds[96:]).float().mean()",
    "tide forecast": "score=mse(model(streams[:,:480].unsqueeze(-1),None)[0],streams[:,1:])/streams.var()",
    "review sentiment": "score=(net(reviews).argmax(1)==ratings).float().mean()",
    "tiny language model": "score=(gpt(corpus[:,:-1]).argmax(-1)==corpus[:,1:])[:,4:].float().mean()",
    "number reversal": """
h=encoder(source); tok=torch.full((64,1),0); ok=0
for q in range(4):
    w,h=decoder(tok,h); tok=w.argmax(1,keepdim=True); ok=ok+(tok[:,0]==target[:,q]).float().mean()/4
score=ok
""",
}
