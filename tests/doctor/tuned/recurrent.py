"""Faults of recurrent networks: truncated backpropagation through time, loops over time, batch_first."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "characters with an lstm",
        "recurrent",
        setup="""
import torch
import torch.nn as nn

torch.manual_seed(10)
text = "hello world, this is a small text that repeats. " * 12
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text])
batch_size, seq_len, hidden_size = 8, 8, 32
n = (len(data) - 1) // batch_size
xs = data[:n * batch_size].view(batch_size, n)
ys = data[1:n * batch_size + 1].view(batch_size, n)

class CharRNN(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.embed = nn.Embedding(vocab, 16)
        self.lstm = nn.LSTM(16, hidden, batch_first=True)
        self.decoder = nn.Linear(hidden, vocab)

    def forward(self, x, state):
        output, state = self.lstm(self.embed(x), state)
        return self.decoder(output), state

    def init_state(self, batch):
        return torch.zeros(1, batch, hidden_size), torch.zeros(1, batch, hidden_size)

model = CharRNN(len(chars), hidden_size)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
state = model.init_state(batch_size)
losses = []
""",
        forward="""
at = (step * seq_len) % (n - seq_len)
x, y = xs[:, at:at + seq_len], ys[:, at:at + seq_len]
state = tuple(s.detach() for s in state)
logits, state = model(x, state)
loss = criterion(logits.reshape(-1, len(chars)), y.reshape(-1))
""",
        update="""
optimizer.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(model.parameters(), 5.0)
optimizer.step()
losses.append(loss.item())
""",
        faults=(
            Fault(
                "state is kept with its graph",
                "second backward",
                (("state = tuple(s.detach() for s in state)\n", ""),),
                where=("state", "lstm"),
                source="PyTorch forum, Trying to backward through the graph a second time: hidden state of an LSTM",
                hosts=LOOPS,
            ),
            Fault(
                "retain_graph instead of detach",
                "inplace",
                (
                    ("state = tuple(s.detach() for s in state)\n", ""),
                    ("loss.backward()", "loss.backward(retain_graph=True)"),
                ),
                where=("state", "lstm", "weight", "retain_graph"),
                source="pytorch 36470; PyTorch forum, retain_graph=True and hidden states",
                hosts=LOOPS,
            ),
            Fault(
                "logits are viewed over time and targets over the batch",
                "wrong dimension",
                (("logits.reshape(-1, len(chars))", "logits.transpose(0, 1).reshape(-1, len(chars))"),),
                where=("reshape", "logits", "transpose"),
                source="Humbatova 2020, Wrong tensor shape; Karpathy, view() and permute() are not the same",
            ),
            Fault(
                "batch_first is missing",
                "wrong dimension",
                (("nn.LSTM(16, hidden, batch_first=True)", "nn.LSTM(16, hidden)"),),
                where=("lstm", "batch_first"),
                source="PyTorch forum, batch_first of LSTM; Humbatova 2020, Wrong layer properties",
            ),
            Fault(
                "the output of the lstm is not used",
                "unused",
                (("return self.decoder(output), state", "return self.decoder(self.embed(x).repeat(1, 1, 2)), state"),),
                where=("lstm",),
                source="Islam 2019, Data flow bug; pytorch/tutorials 2522",
            ),
            Fault(
                "losses keep their graphs",
                "kept graphs",
                (("losses.append(loss.item())", "losses.append(loss)"),),
                where=("losses", "loss"),
                source="PyTorch FAQ, history across your training loop; pytorch 25340",
                hosts=LOOPS,
            ),
            Fault(
                "clip before the backward of the lstm",
                "early call",
                (
                    (
                        "loss.backward()\nnn.utils.clip_grad_norm_(model.parameters(), 5.0)\n",
                        "nn.utils.clip_grad_norm_(model.parameters(), 5.0)\nloss.backward()\n",
                    ),
                ),
                where=("clip",),
                source="Humbatova 2020, Wrong position of API call",
            ),
            Fault(
                "the lstm is frozen",
                "frozen",
                (
                    (
                        "model = CharRNN(len(chars), hidden_size)\n",
                        "model = CharRNN(len(chars), hidden_size)\n"
                        "for p in model.lstm.parameters():\n"
                        "    p.requires_grad_(False)\n",
                    ),
                ),
                where=("lstm",),
                source="Lightning 19955, why is this parameter not trained",
            ),
            Fault(
                "probabilities for cross_entropy",
                "loss input",
                (("return self.decoder(output), state", "return self.decoder(output).softmax(dim=-1), state"),),
                where=("softmax", "decoder"),
                source="Karpathy, most common mistakes: softmaxed outputs to a loss that expects raw logits",
            ),
        ),
    ),
    Program(
        "recurrence by hand over fifty steps",
        "recurrent",
        setup="""
import torch
from torch import nn

torch.manual_seed(11)
T, B, H = 50, 16, 24
series = torch.zeros(B, T)
series[:, 5] = torch.rand(B) * 2 - 1
wanted = series[:, 5:6].clone()

W_in = nn.Parameter(torch.randn(1, H) * 0.5)
W_rec = nn.Parameter(nn.init.orthogonal_(torch.empty(H, H)))
b = nn.Parameter(torch.zeros(H))
W_out = nn.Parameter(torch.randn(H, 1) * 0.2)
params = [W_in, W_rec, b, W_out]
optimizer = torch.optim.Adam(params, lr=3e-3)

def rnn(inputs):
    h = torch.zeros(B, H)
    for t in range(T):
        h = torch.tanh(inputs[:, t:t + 1] @ W_in + h @ W_rec + b)
    return h @ W_out
""",
        forward="""
loss = ((rnn(series) - wanted) ** 2).mean()
""",
        update="""
optimizer.zero_grad()
loss.backward()
torch.nn.utils.clip_grad_norm_(params, 1.0)
optimizer.step()
""",
        steps=30,
        faults=(
            Fault(
                "recurrent weights shrink",
                "vanishing",
                (("nn.init.orthogonal_(torch.empty(H, H))", "torch.randn(H, H) * 0.05"),),
                where=("W_rec", "tanh", r"\bh\b", "rnn"),
                source="Pascanu 2013, vanishing gradients; DeepDiagnosis, vanishing gradient",
            ),
            Fault(
                "linear recurrence that grows",
                "exploding",
                (
                    ("nn.init.orthogonal_(torch.empty(H, H))", "torch.randn(H, H) * 0.6"),
                    (
                        "h = torch.tanh(inputs[:, t:t + 1] @ W_in + h @ W_rec + b)",
                        "h = torch.relu(inputs[:, t:t + 1] @ W_in + h @ W_rec + b)",
                    ),
                ),
                where=("W_rec", "relu", r"\bh\b", "rnn"),
                source="Pascanu 2013, exploding gradients; DeepDiagnosis, exploding tensor",
            ),
            Fault(
                "state is detached at each time",
                "cut",
                (("+ h @ W_rec + b)", "+ h.detach() @ W_rec + b)"),),
                where=("detach", r"\bh\b", "W_in"),
                source="PyTorch forum, where to detach in truncated backpropagation",
            ),
            Fault(
                "state is made anew at each time",
                "cut",
                (("    return h @ W_out", "    return torch.tensor(h.tolist()) @ W_out"),),
                where=("tensor", "tolist", "W_in", "W_rec"),
                source="Zhang 2018, Confusion with computation model",
            ),
            Fault(
                "saturated units",
                "dead units",
                (
                    ("W_in = nn.Parameter(torch.randn(1, H) * 0.5)", "W_in = nn.Parameter(torch.randn(1, H) * 500)"),
                    ("b = nn.Parameter(torch.zeros(H))", "b = nn.Parameter(torch.full((H,), 30.0))"),
                ),
                where=("tanh", r"\bb\b", r"\bh\b"),
                source="DeepLocalize and DeepDiagnosis, saturated activation",
            ),
        ),
    ),
)
