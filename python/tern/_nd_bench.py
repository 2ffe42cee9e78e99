"""The part `nd` of tern.bench: arrays beside numpy, and steps of training beside torch with OpenBLAS, on one thread."""

import sys
import time

import numpy as np

from tern import nd

S = nd.symbol
N = 4_000_000


def process_seconds(calls):
    """The CPU time of one of `calls()`, of all threads: torch may use some for gradients."""
    n, begin = 0, time.process_time()
    while True:
        n += calls()
        spent = time.process_time() - begin
        if spent >= 0.15:
            return spent / n


def once(function):
    def calls():
        function()
        return 1

    return calls


# ---- Models, twice -------------------------------------------------------------------------------------------------


def mlp():
    x = S.relu(S.FullyConnected(S.Variable("data"), 512, "fc1"))
    x = S.relu(S.FullyConnected(x, 512, "fc2"))
    return S.SoftmaxOutput(S.FullyConnected(x, 10, "fc3"))


def mlp_torch(torch):
    n = torch.nn
    return n.Sequential(n.Linear(784, 512), n.ReLU(), n.Linear(512, 512), n.ReLU(), n.Linear(512, 10))


def cnn():
    def block(x, filters):
        return S.pool(S.relu(S.batch_norm(S.convolution(x, kernel=3, pad=1, filters=filters))), kernel=2, stride=2)

    x = S.relu(S.FullyConnected(block(block(S.Variable("data"), 32), 64), 128))
    return S.SoftmaxOutput(S.FullyConnected(x, 10))


def cnn_torch(torch):
    n = torch.nn

    def block(channels, filters):
        return n.Conv2d(channels, filters, 3, padding=1), n.BatchNorm2d(filters), n.ReLU(), n.MaxPool2d(2)

    return n.Sequential(*block(1, 32), *block(32, 64), n.Flatten(), n.Linear(3136, 128), n.ReLU(), n.Linear(128, 10))


def resnet20():
    """ResNet-20 of He et al. with projections where the shape changes."""
    def convolve(x, filters, kernel, stride):
        return S.batch_norm(S.convolution(x, kernel=kernel, stride=stride, pad=kernel // 2, filters=filters))

    x = S.relu(convolve(S.Variable("data"), 16, 3, 1))
    for filters in (16, 32, 64):
        for block in range(3):
            stride = 2 if block == 0 and filters > 16 else 1
            inner = convolve(S.relu(convolve(x, filters, 3, stride)), filters, 3, 1)
            x = S.relu(S.add(inner, convolve(x, filters, 1, stride) if stride > 1 else x))
    return S.SoftmaxOutput(S.FullyConnected(S.mean(x, axis=(2, 3)), 10))


def resnet20_torch(torch):
    n = torch.nn

    def convolve(channels, filters, kernel, stride):
        return n.Sequential(n.Conv2d(channels, filters, kernel, stride, kernel // 2), n.BatchNorm2d(filters))

    class Block(n.Module):
        def __init__(self, channels, filters, stride):
            super().__init__()
            self.inner = n.Sequential(convolve(channels, filters, 3, stride), n.ReLU(), convolve(filters, filters, 3, 1))
            self.outer = convolve(channels, filters, 1, stride) if stride > 1 else n.Identity()

        def forward(self, x):
            return torch.relu(self.inner(x) + self.outer(x))

    layers, channels = [convolve(1, 16, 3, 1), n.ReLU()], 16
    for filters in (16, 32, 64):
        for block in range(3):
            layers.append(Block(channels, filters, 2 if block == 0 and filters > 16 else 1))
            channels = filters
    return n.Sequential(*layers, n.AdaptiveAvgPool2d(1), n.Flatten(), n.Linear(64, 10))


MODELS = (("MLP 784-512-512-10, batch 128", mlp, mlp_torch, (128, 784), 1.0),
          ("CNN, 32 and 64 filters, batch 128", cnn, cnn_torch, (128, 1, 28, 28), 0.9),
          ("ResNet-20, batch 64", resnet20, resnet20_torch, (64, 1, 28, 28), 0.9))


def bench_model(report, torch, medians, model):
    name, ours, theirs, shape, wanted = model
    rng = np.random.default_rng(1)
    data, labels = rng.random(shape, np.float32), rng.integers(0, 10, shape[0])
    inputs, targets = nd.array(data), nd.array(labels)
    module = nd.Module(ours())
    module.init_params(nd.Xavier(), seed=1)
    module.init_optimizer("momentum", {"learning_rate": 0.01})
    module.bind(data=shape)

    def our_step():
        module.forward(inputs, label=targets)
        module.backward()
        module.update()
        nd.wait_all()

    net, x, y = theirs(torch), torch.from_numpy(data), torch.from_numpy(labels)
    optimizer, loss = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9), torch.nn.CrossEntropyLoss()

    def their_step():
        optimizer.zero_grad()
        loss(net(x), y).backward()
        optimizer.step()

    mine, baseline = medians(once(our_step), once(their_step), measure=process_seconds)
    report.ratio(f"step of {name}", mine, "torch", baseline, wanted)


# ---- Arrays --------------------------------------------------------------------------------------------------------


def bench_arrays(report, medians):
    rng = np.random.default_rng(1)
    a, b, c = (rng.random(N, np.float32) for _ in range(3))
    x, y, z = nd.array(a), nd.array(b), nd.array(c)
    one = nd.ones(1)

    def ours(function):
        def calls():
            result = function(x, y, z)
            nd.wait_all()
            del result

        return once(calls)

    def chain(p, q, r):
        return ((p * q + r) * p - q) * r + p * (q - 0.5)

    mine, numpys = medians(ours(lambda p, q, r: p * q + r), once(lambda: a * b + c), measure=process_seconds)
    report.ratio(f"a*b+c, {N} f32", mine, "numpy", numpys, 1.5)
    mine, numpys = medians(ours(chain), once(lambda: chain(a, b, c)), measure=process_seconds)
    report.ratio(f"8 elementwise operators, {N} f32", mine, "numpy", numpys, 4.0)

    def operations():
        value = one
        for _ in range(1000):
            value = value + one
        nd.wait_all()
        return 1000

    seconds, = medians(operations, measure=process_seconds)
    report.put({"what": "an operation on one number, us", "value": round(seconds * 1e6, 2), "wanted": 5,
                "met": seconds <= 5e-6})


def has_openblas():
    """Debian's torch calls libblas.so.3, which may be the slow reference."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return any(name in line for line in maps for name in ("openblas", "mkl"))


def bench(report, torch, medians):
    nd.set_threads(1)
    bench_arrays(report, medians)
    if torch:
        _ = torch.ones(8, 8) @ torch.ones(8, 8)
        if not has_openblas():
            print("tern.bench: torch multiplies matrices without OpenBLAS; steps are not compared", file=sys.stderr)
            return
        for model in MODELS:
            bench_model(report, torch, medians, model)
