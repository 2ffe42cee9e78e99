"""Convolutions, pooling and batch normalisation of tern.nd: numbers, gradients, and a small network that learns."""

import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT
from test_nd_module import FASHION, check_gradients

from tern import nd

S = nd.symbol

WINDOWS = [  # images, filters, kernel, stride, pad
    ((2, 3, 7, 6), 4, (3, 3), (1, 1), (1, 1)),
    ((3, 2, 8, 9), 5, (3, 2), (2, 3), (1, 0)),
    ((2, 4, 5, 5), 3, (1, 1), (1, 1), (0, 0)),
    ((2, 4, 6, 5), 3, (1, 1), (2, 2), (0, 0)),
    ((40, 1, 7, 7), 2, (5, 5), (1, 1), (2, 2)),  # several tiles of images
    ((1, 2, 40, 33), 3, (3, 3), (1, 1), (1, 1)),  # several tiles of rows
    ((1, 1, 3, 900), 2, (3, 5), (1, 1), (1, 2)),  # rows longer than a tile
    ((1, 1, 2, 2), 1, (5, 5), (3, 3), (4, 4)),  # more zeros than image
]

LARGE = [  # several chunks
    ((37, 16, 32, 30), 24, (3, 3), (1, 1), (1, 1)),
    ((19, 5, 40, 41), 33, (1, 1), (2, 2), (0, 0)),
    ((6, 70, 9, 9), 130, (3, 2), (2, 1), (1, 0)),
    ((50, 1, 28, 28), 32, (5, 5), (1, 1), (2, 2)),
]


def windows(x, kernel, stride, pad, fill):
    """All windows of images: n x c x places y x places x x kernel."""
    x = np.pad(x, ((0, 0), (0, 0), (pad[0],) * 2, (pad[1],) * 2), constant_values=fill)
    x = np.lib.stride_tricks.sliding_window_view(x, kernel, (2, 3))
    return x[:, :, :: stride[0], :: stride[1]]


@pytest.mark.parametrize("case", WINDOWS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_convolution_is_that_of_numpy(case, dtype):
    shape, filters, kernel, stride, pad = case
    rng = np.random.default_rng(1)
    x = rng.normal(size=shape).astype(dtype)
    w, b = rng.normal(size=(filters, shape[1], *kernel)).astype(dtype), rng.normal(size=filters).astype(dtype)
    wanted = np.einsum("ncyxij,fcij->nfyx", windows(x, kernel, stride, pad, 0), w) + b[:, None, None]
    found = nd.convolution(x, w, b, kernel=kernel, stride=stride, pad=pad, filters=filters).numpy()
    assert found.shape == wanted.shape and found.dtype == dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("threads", [1, 3])
def test_convolutions_of_f32_are_those_of_f64(threads):
    """oneDNN, where it is, beside the library's own loops: several chunks, the last of which is shorter."""
    nd.set_threads(threads)
    rng = np.random.default_rng(5)
    for shape, filters, kernel, stride, pad in LARGE + WINDOWS:
        window = {"kernel": kernel, "stride": stride, "pad": pad}
        x, w = rng.normal(size=shape), rng.normal(size=(filters, shape[1], *kernel))
        b = rng.normal(size=filters)
        out = nd.convolution(x, w, b, filters=filters, **window).numpy()
        g = rng.normal(size=out.shape)
        height, width = shape[2:]

        def all_three(dtype):
            data, weight, bias, grad = (nd.array(a.astype(dtype)) for a in (x, w, b, g))
            return [r.numpy() for r in (nd.convolution(data, weight, bias, filters=filters, **window),
                                        nd.convolution_data(grad, weight, height=height, width=width, **window),
                                        nd.convolution_weight(grad, data, **window))]

        for found, again, wanted in zip(all_three("float32"), all_three("float32"), all_three("float64")):
            assert found.dtype == np.float32 and np.array_equal(found, again)
            assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_more_shapes_than_are_kept():
    """Each shape of a convolution has its own code in oneDNN, of which a limited number is kept."""
    for height in [*range(1, 300), 1, 2, 3]:
        x = np.arange(height * 3, dtype=np.float32).reshape(1, 1, height, 3)
        found = nd.convolution(x, np.ones((1, 1, 1, 3), np.float32), np.zeros(1, np.float32), kernel=(1, 3), filters=1)
        assert np.array_equal(found.numpy(), x.sum(3, keepdims=True))


@pytest.mark.parametrize("case", WINDOWS[:3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pool_is_that_of_numpy(case, dtype):
    shape, _, kernel, stride, pad = case
    x = np.random.default_rng(2).normal(size=shape).astype(dtype)
    found = nd.pool(x, kernel=kernel, stride=stride, pad=pad).numpy()
    assert np.array_equal(found, windows(x, kernel, stride, pad, -np.inf).max((4, 5)))
    mean = np.nanmean(windows(x, kernel, stride, pad, np.nan), (4, 5))
    np.testing.assert_allclose(nd.pool(x, kernel=kernel, stride=stride, pad=pad, average=1).numpy(), mean, rtol=1e-5,
                               atol=1e-6)


def test_batch_norm_is_that_of_numpy():
    rng = np.random.default_rng(3)
    for shape in ((4, 3, 5, 6), (7, 5), (2, 1, 9)):
        x = rng.normal(3, 2, shape)
        gamma, beta = rng.normal(size=(2, shape[1]))
        axes = tuple(i for i in range(len(shape)) if i != 1)
        moments = np.stack([x.mean(axes), x.var(axes)])
        np.testing.assert_allclose(nd.moments(x).numpy(), moments, rtol=1e-12)
        wide = (slice(None),) + (None,) * (len(shape) - 2)
        wanted = (x - moments[0][wide]) / np.sqrt(moments[1][wide] + 0.01) * gamma[wide] + beta[wide]
        np.testing.assert_allclose(nd.batch_norm(x, gamma, beta, moments, eps=0.01).numpy(), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", WINDOWS)
def test_gradients_of_convolution(case):
    shape, filters, kernel, stride, pad = case
    window = {"kernel": kernel, "stride": stride, "pad": pad}
    weight = (filters, shape[1], *kernel)
    check_gradients(lambda x, w, b: S.convolution(x, w, b, filters=filters, **window), x=shape, w=weight, b=(filters,))
    out = S.convolution(nd.variable("x"), filters=filters, **window).infer(x=shape)[0]
    check_gradients(lambda g, w: S.convolution_data(g, w, height=shape[2], width=shape[3], **window), g=out, w=weight)
    check_gradients(lambda g, x: S.convolution_weight(g, x, **window), g=out, x=shape)


@pytest.mark.parametrize("case", WINDOWS[:3])
def test_gradients_of_pool(case):
    shape, _, kernel, stride, pad = case
    window = {"kernel": kernel, "stride": stride, "pad": pad}
    check_gradients(lambda x: S.pool(x, **window), x=shape)
    check_gradients(lambda x: S.pool(x, average=1, **window), x=shape)
    out = S.pool(nd.variable("x"), **window).infer(x=shape)[0]
    check_gradients(lambda g: S.pool_gradient(g, average=1, height=shape[2], width=shape[3], **window), g=out)


def test_gradients_of_batch_norm():
    for shape in ((3, 2, 4, 3), (6, 3)):
        c = shape[1]
        check_gradients(lambda x, g, b, s: S.batch_norm(x, g, b, S.multiply(s, s), eps=0.1), x=shape, g=(c,), b=(c,), s=(2, c))
        check_gradients(lambda x, g, b: S.batch_norm(x, g, b, S.moments(x), eps=0.1), x=shape, g=(c,), b=(c,))
        check_gradients(lambda x: S.moments(S.multiply(x, x)), x=shape)
        # the statistics of the batch, which the module puts in the place of the variable
        x = np.random.default_rng(4).normal(size=shape)
        modules = [nd.Module(S.sum(S.square(S.batch_norm(S.multiply(nd.variable("x"), nd.variable("w")), name="bn")))),
                   nd.Module(S.sum(S.square(S.batch_norm(y := S.multiply(nd.variable("x"), nd.variable("w")),
                                                         nd.variable("bn_gamma"), nd.variable("bn_beta"), S.moments(y)))))]
        gradients = []
        for module in modules:
            module.bind(x=(shape, "float64"), parameters={"w": (shape, "float64")})
            for name in ("w", "bn_gamma", "bn_beta"):
                module.parameter(name).assign(np.random.default_rng(5).uniform(0.5, 1.5, module.parameter(name).shape))
            module.forward(x=x)
            module.backward()
            gradients.append([module.gradient(name).numpy() for name in ("w", "bn_gamma", "bn_beta")])
        for a, b in zip(*gradients):
            assert np.array_equal(a, b) and np.abs(a).max() > 0


def test_statistics_follow_the_batches(tmp_path):
    net = S.batch_norm(nd.variable("data"), name="bn", decay=0.75)
    module = nd.Module(net)
    module.bind(data=(8, 3, 2, 2))
    assert module.names == ["bn_gamma", "bn_beta"] and module.states == ["bn_statistics"]
    module.init_params()
    assert module.parameter("bn_gamma").numpy().tolist() == [1, 1, 1]
    statistics = np.array([[0.0] * 3, [1.0] * 3])
    assert np.array_equal(module.parameter("bn_statistics").numpy(), statistics)
    rng = np.random.default_rng(6)
    for _ in range(4):
        x = rng.normal(2, 3, (8, 3, 2, 2)).astype("float32")
        out = module.forward(x).numpy()
        assert abs(out.mean()) < 1e-5 and abs(out.var() - 1) < 1e-3
        module.backward()
        statistics = 0.75 * statistics + 0.25 * np.stack([x.mean((0, 2, 3)), x.var((0, 2, 3))])
        np.testing.assert_allclose(module.parameter("bn_statistics").numpy(), statistics, rtol=1e-5)
    given = {"data": x, "gamma": np.ones(3), "beta": np.zeros(3), "statistics": statistics}
    wanted = nd.batch_norm(*given.values()).numpy()
    np.testing.assert_allclose(module.forward(x, training=False).numpy(), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(module.parameter("bn_statistics").numpy(), statistics, rtol=1e-5)  # not when it predicts
    module.save(tmp_path / "bn.safetensors")
    other = nd.Module(net, predicting=True).bind(data=(8, 3, 2, 2))
    other.load(tmp_path / "bn.safetensors")
    assert np.array_equal(other.forward(x, training=False).numpy(), module.forward(x, training=False).numpy())
    with pytest.raises(nd.Error, match="'bn_statistics' is not learned"):
        module.gradient("bn_statistics")


def test_shapes():
    x = nd.variable("x")
    layer = S.convolution(x, kernel=3, pad=1, stride=2, filters=8, name="conv")
    assert layer.infer(x=(5, 3, 32, 31)) == ((5, 8, 16, 16), np.float32)
    assert layer.infer("conv_weight", x=(5, 3, 32, 32)) == ((8, 3, 3, 3), np.float32)
    assert layer.infer("conv_bias", x=((5, 3, 32, 32), "float64")) == ((8,), np.float64)
    for build, what in ((lambda: S.convolution(x, kernel=40, filters=1), "kernel of 40 with 0 zeros .* into 32"),
                        (lambda: S.convolution(x, kernel=3, pad=3, filters=1), "does not fit"),
                        (lambda: S.convolution(x, kernel=(3, 3, 3), filters=1), "'kernel' has one or two numbers"),
                        (lambda: S.convolution(x, kernel=3, stride=0, filters=1), "'stride' is 0"),
                        (lambda: S.convolution(x, kernel=3, filters=0), "dimension"),
                        (lambda: S.pool(x, kernel=-1), "'kernel' is -1"),
                        (lambda: S.batch_norm(x, eps=-1.0), "eps is -1")):
        with pytest.raises(nd.Error, match=what):
            build().infer(x=(2, 3, 32, 32))
    with pytest.raises(nd.Error, match="four dimensions|images x channels"):
        layer.infer(x=(2, 3, 32))
    with pytest.raises(nd.Error, match=r"weights must have the shape \(8, 3, 3, 3\), not \(8, 1, 3, 3\)"):
        layer.infer(x=(2, 3, 8, 8), conv_weight=(8, 1, 3, 3))


# ---- Training ------------------------------------------------------------------------------------------------------


def cnn():
    def block(x, name, filters):
        x = S.convolution(x, kernel=3, pad=1, filters=filters, name=name)
        return S.pool(S.relu(S.batch_norm(x, name=name + "_bn")), kernel=2, stride=2)

    return S.SoftmaxOutput(S.FullyConnected(block(block(nd.variable("data"), "c1", 8), "c2", 16), 10, "fc"), name="softmax")


def trained(rows=400, **options):
    rng = np.random.default_rng(7)
    centres = rng.normal(0, 1, (10, 1, 8, 8)).astype("float32")
    labels = rng.integers(0, 10, rows)
    data = centres[labels] + rng.normal(0, 0.5, (rows, 1, 8, 8)).astype("float32")
    module = nd.Module(cnn(), **options)
    module.init_params(seed=3)
    module.init_optimizer("momentum", {"rate": 0.05})
    module.bind(data=(50, 1, 8, 8))
    module.fit(nd.Iterator(data, labels, 50, seed=9), 2)
    return module, module.score(nd.Iterator(data, labels, 50))[0]


def test_a_cnn_does_not_depend_on_threads_fusion_and_plan():
    module, accuracy = trained()
    assert accuracy > 0.95
    for threads in (1, 4):
        nd.set_threads(threads)
        for fuse in (True, False):
            other, _ = trained(fuse=fuse, plan=not fuse)
            for name in module.names + module.states:
                assert np.array_equal(other.parameter(name).numpy(), module.parameter(name).numpy())


@pytest.mark.skipif(not os.path.exists(FASHION), reason="the package dataset-fashion-mnist is not installed")
def test_the_example_learns_fashion_mnist():
    command = [sys.executable, ROOT / "examples/cnn.py", "--rows=2000", "--test-rows=500", "--epochs=2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    epochs = [line.split() for line in done.stdout.splitlines()]
    assert [words[:4] for words in epochs] == [["epoch", f"{i}:", "test", "accuracy"] for i in (1, 2)]
    assert float(epochs[1][4].rstrip(",")) > 0.5


@pytest.mark.skipif(not os.path.exists(FASHION), reason="the package dataset-fashion-mnist is not installed")
def test_the_example_of_a_deep_network():
    command = [sys.executable, ROOT / "examples/resnet.py", "--rows=800", "--test-rows=200", "--epochs=2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    epochs = [line.split() for line in done.stdout.splitlines()]
    assert len(epochs) == 2 and float(epochs[1][4].rstrip(",")) > 0.15


def mlp(*options):
    command = [sys.executable, ROOT / "examples/mlp.py", "--rows=6000", "--test-rows=1000", "--epochs=1", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    return float(done.stdout.split()[-1])


@pytest.mark.skipif(not os.path.exists(FASHION), reason="the package dataset-fashion-mnist is not installed")
def test_the_example_with_dropout():
    assert mlp() > 0.6


@pytest.mark.torch
@pytest.mark.skipif(not os.path.exists(FASHION), reason="the package dataset-fashion-mnist is not installed")
def test_the_example_with_dropout_in_torch():
    pytest.importorskip("torch")
    assert mlp("--torch") > 0.6


@pytest.mark.torch
def test_layers_are_those_of_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(8)
    x, w, b = rng.normal(size=(4, 3, 9, 8)), rng.normal(size=(5, 3, 3, 3)), rng.normal(size=5)
    gamma, beta = rng.normal(size=(2, 5))
    values = {"c_weight": w, "c_bias": b, "bn_gamma": gamma, "bn_beta": beta}
    y = S.batch_norm(S.convolution(nd.variable("x"), kernel=3, stride=(2, 1), pad=1, filters=5, name="c"), name="bn", eps=0.01)
    y = S.pool(S.pool(S.relu(y), kernel=3, stride=2, pad=1), kernel=2, average=1, pad=1)
    module = nd.Module(S.sum(S.square(y)))
    module.bind(x=(x.shape, "float64"))
    for name, value in values.items():
        module.parameter(name).assign(value)
    loss = float(module.forward(x=x))
    module.backward()
    given = {name: torch.tensor(value, requires_grad=True) for name, value in values.items()}
    f = torch.nn.functional
    t = f.conv2d(torch.tensor(x), given["c_weight"], given["c_bias"], (2, 1), 1)
    t = f.batch_norm(t, None, None, given["bn_gamma"], given["bn_beta"], training=True, eps=0.01)
    t = f.avg_pool2d(f.max_pool2d(f.relu(t), 3, 2, 1), 2, 1, 1, count_include_pad=False)
    total = t.square().sum()
    total.backward()
    assert loss == pytest.approx(total.item(), rel=1e-10)
    for name, value in given.items():
        np.testing.assert_allclose(module.gradient(name).numpy(), value.grad.numpy(), rtol=1e-8, atol=1e-9)
