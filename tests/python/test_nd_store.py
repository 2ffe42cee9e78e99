"""The store of tern.nd: Figure 4.5 of Li's thesis, and data parallelism on several nodes."""

import json

import numpy as np
import pytest

from tern import nd


def mlp():
    data = nd.symbol.Variable()
    fc1 = nd.symbol.FullyConnected(data, num_hidden=64)
    relu = nd.symbol.Activation(fc1, act_type="relu")
    fc2 = nd.symbol.FullyConnected(relu, num_hidden=10)
    return nd.symbol.SoftmaxOutput(fc2)


def test_figure_4_5():
    data = nd.array(np.random.default_rng(1).normal(size=(4, 30)).astype(np.float32))
    mod = nd.Module(mlp(), nd.cpu())
    mod.init_params(initializer=nd.Uniform(-1, +1))
    mod.bind(data=data)
    model = mod
    first = [p.numpy().copy() for p in model.get_params()]

    kv = nd.kvstore.create()

    def update(key, grad, weight):
        weight += 0.1 * grad

    kv.set_updater(update)
    for key, weight in enumerate(model.get_params()):
        kv.pull(key, weight)
    mod.forward(data)
    mod.backward()
    for key, grad in enumerate(model.get_gradients()):
        kv.push(key, grad)

    for key, weight in enumerate(model.get_params()):
        kv.pull(key, weight)
    for before, after, grad in zip(first, model.get_params(), model.get_gradients()):
        np.testing.assert_allclose(after.numpy(), before + np.float32(0.1) * grad.numpy(), rtol=1e-6, atol=1e-7)
    kv.close()


def test_store_alone():
    with nd.Store("alone") as kv:
        x = nd.array(np.arange(3000, dtype=np.float32).reshape(3, 1000))
        kv.pull("x", x)  # the first value
        kv.push("x", nd.ones((3, 1000)))
        kv.push("x", nd.ones((3, 1000)))
        y = nd.zeros((3, 1000))
        kv.pull("x", y)
        assert np.array_equal(y.numpy(), x.numpy() + 2)
        kv.pull("x", y)
        assert np.array_equal(y.numpy(), x.numpy() + 2)
        kv.push("new", nd.ones(5))
        z = nd.zeros(5)
        kv.pull("new", z)
        assert z.numpy().tolist() == [1] * 5
        with pytest.raises(nd.Error, match=r"'x' has the shape \(3, 1000\), not \(5,\)"):
            kv.push("x", z)
        with pytest.raises(nd.Error, match="f32, not f64"):
            kv.push("d", nd.zeros(3, dtype="float64"))
        with pytest.raises(nd.Error, match="1 to 63 characters"):
            kv.push("k" * 64, z)

        def broken(key, total, value):
            raise KeyError(key)

        kv.set_updater(broken)
        kv.push("new", z)
        with pytest.raises(KeyError, match="new"):
            kv.pull("new", z)
    with nd.Store("eventual", eventual=True, rate=0.5) as kv:
        x = nd.array(np.ones(2000, np.float32))
        kv.pull(7, x)
        kv.push(7, nd.full(2000, 2.0))
        kv.pull(7, x)
        assert np.array_equal(x.numpy(), np.zeros(2000, np.float32))
        with pytest.raises(nd.Error, match="eventual store merges by its rate"):
            kv.set_updater(lambda key, total, value: None)


PARALLEL = """
import json, os, sys
import numpy as np
from tern import nd

node, nodes = int(os.environ.get("TERN_NODE", 0)), int(os.environ.get("TERN_NODES", 1))
S = nd.symbol
net = S.SoftmaxOutput(S.FullyConnected(S.Activation(S.FullyConnected(S.Variable("data"), 40, "fc1"), "relu"), 5, "fc2"),
                      name="softmax")
rng = np.random.default_rng(1)
data = rng.normal(size=(64, 30)).astype(np.float32)
labels = (data @ rng.normal(size=(30, 5))).argmax(1)
mod = nd.Module(net)
mod.init_params(nd.Xavier(), seed=1 + node)  # only node 0's count
part = slice(node * 64 // nodes, (node + 1) * 64 // nodes)
mod.bind(data=data[part])
losses = []
with nd.Store() as kv:
    def update(key, grad, weight):
        weight -= 0.1 / 64 * grad
    kv.set_updater(update)
    for _ in range(100):
        for name in mod.names:
            kv.pull(name, mod.parameter(name))
        p = mod.forward(data[part], label=labels[part]).numpy()
        losses.append(float(-np.log(p[np.arange(len(p)), labels[part]]).sum()))
        mod.backward()
        for name in mod.names:
            kv.push(name, mod.gradient(name))
    for name in mod.names:
        kv.pull(name, mod.parameter(name))
print(json.dumps(losses))
"""


@pytest.mark.parametrize("share", ["1", "0"])
def test_two_workers_with_half_the_batch_have_the_losses_of_one(run, tern_command, share):
    one = run(PARALLEL)
    assert one.returncode == 0, one.stderr
    two = run(PARALLEL, [tern_command, "run", "-n", "2", "--no-prefix", "--"], TERN_SHARE=share)
    assert two.returncode == 0, two.stderr
    alone = np.array(json.loads(one.stdout))
    parts = np.array([json.loads(line) for line in two.stdout.splitlines()])
    assert parts.shape == (2, 100) and alone[99] < 0.5 * alone[0]
    np.testing.assert_allclose(parts.sum(0), alone, rtol=1e-5)
