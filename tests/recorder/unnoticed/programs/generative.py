"""GANs, VAEs, diffusion and other generative models in small."""

import copy

import torch
from torch import distributions, nn
from torch.nn import functional

from tests.recorder.unnoticed.registry import program


@program("GAN: two optimizers, detach() for the discriminator's step")
def gan():
    generator = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 2))
    critic = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1), nn.Sigmoid())
    first = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    second = torch.optim.Adam(critic.parameters(), lr=2e-3)
    criterion = nn.BCELoss()
    log = []
    for _ in range(4):
        real = torch.randn(8, 2) + 3
        fake = generator(torch.randn(8, 2))
        second.zero_grad()
        real_loss = criterion(critic(real), torch.ones(8, 1))
        fake_loss = criterion(critic(fake.detach()), torch.zeros(8, 1))
        real_loss.backward()
        fake_loss.backward()
        second.step()
        first.zero_grad()
        loss = criterion(critic(fake), torch.ones(8, 1))
        loss.backward()
        first.step()
        log.append((real_loss.item(), fake_loss.item(), loss.item()))
    return generator, critic, log


@program("WGAN with a gradient penalty: autograd.grad with create_graph inside the loss")
def gradient_penalty():
    critic = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1))
    optimizer = torch.optim.Adam(critic.parameters())
    penalties = []
    for _ in range(3):
        real, fake = torch.randn(5, 2), torch.randn(5, 2)
        alpha = torch.rand(5, 1)
        mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
        score = critic(mixed)
        (grad,) = torch.autograd.grad(score, mixed, torch.ones_like(score), create_graph=True, retain_graph=True)
        penalty = ((grad.norm(2, dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        penalties.append(penalty.item())
    return critic, penalties


@program("WGAN with clipped weights")
def clipped_weights():
    critic = nn.Linear(2, 1)
    optimizer = torch.optim.RMSprop(critic.parameters(), lr=5e-2)
    for _ in range(3):
        optimizer.zero_grad()
        (critic(torch.randn(4, 2)) - critic(torch.randn(4, 2) + 1)).mean().backward()
        optimizer.step()
        for one in critic.parameters():
            one.data.clamp_(-0.1, 0.1)
    return critic


@program("VAE: reparameterisation and a KL term")
def vae():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Linear(6, 4)
            self.mu, self.logvar = nn.Linear(4, 2), nn.Linear(4, 2)
            self.decoder = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 6), nn.Sigmoid())

        def forward(self, x):
            hidden = self.encoder(x).relu()
            mu, logvar = self.mu(hidden), self.logvar(hidden)
            z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
            return self.decoder(z), mu, logvar

    model = Model()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        x = torch.rand(5, 6)
        out, mu, logvar = model(x)
        loss = functional.binary_cross_entropy(out, x, reduction="sum")
        loss = loss - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        sample = model.decoder(torch.randn(3, 2))
    return model, loss, sample


@program("VAE with torch.distributions: rsample, kl_divergence, Independent")
def distributed_vae():
    net = nn.Linear(3, 4)
    mean, scale = net(torch.randn(5, 3)).chunk(2, -1)
    posterior = distributions.Independent(distributions.Normal(mean, functional.softplus(scale)), 1)
    prior = distributions.Independent(distributions.Normal(torch.zeros(5, 2), torch.ones(5, 2)), 1)
    z = posterior.rsample()
    loss = distributions.kl_divergence(posterior, prior).mean() - prior.log_prob(z).mean()
    loss.backward()
    return net, z, loss, repr(posterior)


@program("many distributions: samples, log_prob, entropy, and an argument that is refused")
def many_distributions():
    made = []
    kinds = [
        distributions.Categorical(logits=torch.randn(3, requires_grad=True)),
        distributions.Bernoulli(torch.tensor(0.3)),
        distributions.Beta(torch.tensor(2.0), torch.tensor(3.0)),
        distributions.Gamma(torch.tensor(2.0), torch.tensor(1.0)),
        distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)),
        distributions.Dirichlet(torch.ones(3)),
        distributions.StudentT(torch.tensor(4.0)),
        distributions.Poisson(torch.tensor(3.0)),
        distributions.MixtureSameFamily(
            distributions.Categorical(torch.ones(2)), distributions.Normal(torch.zeros(2), torch.ones(2))
        ),
        distributions.TransformedDistribution(
            distributions.Normal(torch.tensor(0.0), torch.tensor(1.0)), [distributions.transforms.TanhTransform()]
        ),
    ]
    for one in kinds:
        drawn = one.sample((2,))
        made.append((repr(one), drawn, one.log_prob(drawn), one.batch_shape, one.event_shape))
    try:
        distributions.Normal(torch.tensor(0.0), torch.tensor(-1.0))
    except ValueError as error:
        print(error)
    return made


@program("normalizing flow: coupling layers and a log determinant")
def flow():
    nets = nn.ModuleList(nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(2))
    x = torch.randn(6, 2)
    total = torch.zeros(6)
    for net in nets:
        a, b = x[:, :1], x[:, 1:]
        s, t = net(a).chunk(2, 1)
        b = b * s.exp() + t
        x = torch.cat([b, a], 1)
        total = total + s.squeeze(1)
    loss = -(distributions.Normal(0.0, 1.0).log_prob(x).sum(1) + total).mean()
    loss.backward()
    return nets, loss, x


@program("diffusion: a noise schedule, sampling in a loop under no_grad")
def diffusion():
    steps = 10
    betas = torch.linspace(1e-4, 0.1, steps)
    kept = torch.cumprod(1 - betas, 0)
    net = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(net.parameters())
    data = torch.randn(32, 2)
    for _ in range(3):
        t = torch.randint(0, steps, (32,))
        noise = torch.randn_like(data)
        noisy = kept[t].sqrt()[:, None] * data + (1 - kept[t]).sqrt()[:, None] * noise
        loss = functional.mse_loss(net(torch.cat([noisy, t[:, None] / steps], 1)), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    @torch.no_grad()
    def sample():
        x = torch.randn(4, 2)
        for t in reversed(range(steps)):
            guess = net(torch.cat([x, torch.full((4, 1), t / steps)], 1))
            x = (x - betas[t] / (1 - kept[t]).sqrt() * guess) / (1 - betas[t]).sqrt()
            if t:
                x = x + betas[t].sqrt() * torch.randn_like(x)
        return x

    return net, sample()


@program("neural style: an image that is the parameter, with LBFGS")
def style():
    features = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1))
    features.requires_grad_(False)
    target = features(torch.rand(1, 3, 6, 6)).detach()
    image = nn.Parameter(torch.rand(1, 3, 6, 6))
    optimizer = torch.optim.LBFGS([image], max_iter=4)

    def closure():
        with torch.no_grad():
            image.clamp_(0, 1)
        optimizer.zero_grad()
        out = features(image)
        gram = out.flatten(2) @ out.flatten(2).mT / 36
        loss = functional.mse_loss(out, target) + gram.pow(2).mean()
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
    return image, image.grad


@program("an adversarial example: the sign of the gradient of the input")
def adversarial():
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    image = torch.rand(1, 1, 4, 4)
    image.requires_grad = True
    loss = functional.nll_loss(functional.log_softmax(net(image), 1), torch.tensor([1]))
    net.zero_grad()
    loss.backward()
    changed = torch.clamp(image + 0.1 * image.grad.data.sign(), 0, 1)
    return changed, net(changed).max(1, keepdim=True), image.grad


@program("REINFORCE: Categorical.sample and log_prob in a list, a loop over episodes")
def reinforce():
    policy = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
    totals = []
    for _ in range(3):
        state, logs, rewards = torch.zeros(2), [], []
        for _ in range(5):
            chosen = distributions.Categorical(logits=policy(state))
            action = chosen.sample()
            logs.append(chosen.log_prob(action))
            state = state + torch.tensor([1.0, -1.0]) * (action.item() * 2 - 1)
            rewards.append(-state.abs().sum().item())
        returns, total = [], 0.0
        for reward in rewards[::-1]:
            total = reward + 0.9 * total
            returns.insert(0, total)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        loss = torch.stack([-one * value for one, value in zip(logs, returns, strict=True)]).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        totals.append(sum(rewards))
    return policy, totals


@program("DQN: a target network, gather, smooth_l1_loss, a replay memory")
def dqn():
    net = nn.Linear(3, 2)
    target = copy.deepcopy(net)
    optimizer = torch.optim.AdamW(net.parameters(), amsgrad=True)
    memory = [(torch.randn(3), torch.randint(2, (1,)), torch.randn(1), torch.randn(3)) for _ in range(12)]
    for step in range(3):
        states, actions, rewards, later = map(torch.stack, zip(*memory[step : step + 6], strict=True))
        value = net(states).gather(1, actions)
        with torch.no_grad():
            expected = rewards + 0.99 * target(later).max(1).values.unsqueeze(1)
        loss = nn.SmoothL1Loss()(value, expected)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(net.parameters(), 100)
        optimizer.step()
        kept = target.state_dict()
        for key, one in net.state_dict().items():
            kept[key] = one * 0.1 + kept[key] * 0.9
        target.load_state_dict(kept)
    return net, target, loss
