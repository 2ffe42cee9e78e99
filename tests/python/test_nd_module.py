"""Symbols, gradients, modules and iterators of tern.nd; the programs of Figures 4.1 to 4.3 of Li's thesis."""

import gzip
import os
import struct

import numpy as np
import pytest

from tern import nd

S = nd.symbol


# ---- The thesis' programs, changed in names only -------------------------------------------------------------------


def mlp():
    data = nd.symbol.Variable()
    fc1 = nd.symbol.FullyConnected(data, num_hidden=64)
    relu = nd.symbol.Activation(fc1, act_type="relu")
    fc2 = nd.symbol.FullyConnected(relu, num_hidden=10)
    return nd.symbol.SoftmaxOutput(fc2)


def test_figure_4_1():
    a = nd.zeros((2, 3), nd.cpu())
    a += 2
    b = nd.dot(a, a.T)
    assert str(b.asnumpy()) == "[[12. 12.]\n [12. 12.]]"


def test_figures_4_2_and_4_3():
    a = nd.zeros((2, 3), nd.cpu())
    a += 2
    b = nd.dot(a, a.T)
    mod = nd.Module(mlp(), nd.cpu())
    mod.init_params(initializer=nd.Uniform(-1, +1))
    mod.init_optimizer(optimizer="sgd", optimizer_params=(("learning_rate", 0.1),))
    mod.forward(data=b)
    before = [p.numpy().copy() for p in mod.get_params()]
    mod.backward()
    mod.update()
    after = [p.numpy() for p in mod.get_params()]
    gradients = [g.numpy() for g in mod.get_gradients()]
    assert [p.shape for p in after] == [(64, 2), (64,), (10, 64), (10,)]
    for w, v, g in zip(before, after, gradients):
        np.testing.assert_allclose(v, w - np.float32(0.1) * g / 2, rtol=1e-5, atol=1e-6)
        assert np.abs(g).max() > 0
    assert np.allclose(mod.output.numpy().sum(1), 1)


# ---- Gradients against differences ---------------------------------------------------------------------------------


def check_gradients(build, seed=1, tolerance=1e-6, **shapes):
    """Compares the gradients of sum(output * weights) with differences in f64, and the same without fusion or plan."""
    rng = np.random.default_rng(seed)
    values = {name: rng.uniform(0.3, 1.7, shape) for name, shape in shapes.items()}
    variables = {name: nd.variable(name) for name in shapes}
    symbol = build(*variables.values())
    out_shape, _ = symbol.infer(**{name: (v.shape, "float64") for name, v in values.items()})
    loss = S.sum(S.multiply(symbol, nd.variable("weights")))
    weights = rng.uniform(0.5, 1.5, out_shape)

    def run(**options):
        module = nd.Module(loss, **options)
        module.bind(weights=(out_shape, "float64"), parameters={n: (v.shape, "float64") for n, v in values.items()})
        for name, value in values.items():
            module.parameter(name).assign(value)
        return module

    module = run()
    module.forward(weights=weights)
    module.backward()
    gradients = {name: module.gradient(name).numpy().copy() for name in values}
    for options in ({"fuse": False}, {"plan": False}, {"fuse": False, "plan": False}):
        other = run(**options)
        other.forward(weights=weights)
        other.backward()
        for name in values:
            assert np.array_equal(other.gradient(name).numpy(), gradients[name])
    for name, value in values.items():
        for _ in range(6):
            at = tuple(int(rng.integers(n)) for n in value.shape)
            sums = []
            for step in (1e-5, -1e-5):
                moved = value.copy()
                moved[at] += step
                module.parameter(name).assign(moved)
                sums.append(float(module.forward(weights=weights).numpy()))
            module.parameter(name).assign(value)
            difference = (sums[0] - sums[1]) / 2e-5
            assert gradients[name][at] == pytest.approx(difference, rel=tolerance, abs=tolerance), (name, at)


UNARY = ["absolute", "copy", "cos", "exp", "expm1", "log", "log1p", "negative", "reciprocal", "relu", "sigmoid", "sin",
         "softplus", "sqrt", "square", "tanh", "softmax", "log_softmax"]
BINARY = ["add", "subtract", "multiply", "divide", "power", "maximum", "minimum"]


@pytest.mark.parametrize("name", UNARY)
def test_gradient_unary(name):
    check_gradients(lambda x: getattr(S, name)(x), x=(3, 5))
    check_gradients(lambda x: getattr(S, name)(S.multiply(x, x)), x=(2, 3, 2))  # a shared input


@pytest.mark.parametrize("name", BINARY)
def test_gradient_binary(name):
    check_gradients(lambda x, y: getattr(S, name)(x, y), x=(3, 4), y=(3, 4))
    check_gradients(lambda x, y: getattr(S, name)(x, y), x=(3, 1, 4), y=(2, 1))
    check_gradients(lambda x, y: getattr(S, name)(getattr(S, name)(x, y), x), x=(2, 3), y=(3,))


OTHERS = {
    "sum": (lambda x: S.sum(x, axis=(0, 2)), {"x": (2, 3, 4)}),
    "sum_all": (lambda x: S.sum(x), {"x": (2, 3)}),
    "mean": (lambda x: S.mean(x, axis=1, keepdims=True), {"x": (2, 3, 4)}),
    "max": (lambda x: S.max(x, axis=1), {"x": (3, 5)}),
    "min": (lambda x: S.min(x, axis=(0,)), {"x": (3, 5)}),
    "sum_to": (lambda x: S.sum_to(x, shape=(1, 4)), {"x": (3, 4)}),
    "broadcast_to": (lambda x: S.broadcast_to(x, shape=(2, 3, 4)), {"x": (3, 1)}),
    "reshape": (lambda x: S.reshape(x, shape=(4, -1)), {"x": (2, 6)}),
    "transpose": (lambda x: S.transpose(x, axes=(2, 0, 1)), {"x": (2, 3, 4)}),
    "slice": (lambda x: S.slice(x, begin=(1, 0), end=(5, 3), step=(2, 1)), {"x": (6, 3)}),
    "unslice": (lambda x: S.unslice(x, begin=(1,), shape=(6, 2), step=(2,)), {"x": (2, 2)}),
    "concat": (lambda x, y: S.concat(x, y, x, axis=1), {"x": (2, 3), "y": (2, 1)}),
    "where": (lambda x, y: S.where(S.greater(x, y), x, y), {"x": (3, 3), "y": (3,)}),
    "clip": (lambda x: S.clip(x, low=0.6, high=1.2), {"x": (3, 5)}),
    "cast": (lambda x: S.cast(S.cast(x, type="f64"), type="f64"), {"x": (3, 2)}),
    "dot": (lambda x, y: S.dot(x, y), {"x": (3, 4), "y": (4, 2)}),
    "dot_ta": (lambda x, y: S.dot(x, y, transpose_a=1), {"x": (4, 3), "y": (4, 2)}),
    "dot_tb": (lambda x, y: S.dot(x, y, transpose_b=1), {"x": (3, 4), "y": (2, 4)}),
    "dot_both": (lambda x, y: S.dot(x, y, transpose_a=1, transpose_b=1), {"x": (4, 3), "y": (2, 4)}),
    "dot_self": (lambda x: S.dot(x, x), {"x": (4, 4)}),
    "fully_connected": (lambda x, w, b: S.fully_connected(x, w, b, hidden=5), {"x": (2, 3, 4), "w": (5, 12), "b": (5,)}),
    "take": (lambda x: S.take(x, S.cast(S.constant(value=1.0), type="i64")), {"x": (3, 4)}),
    "stop_gradient": (lambda x, y: S.add(y, S.multiply(S.constant(value=0.0, type="f64"), S.stop_gradient(x))),
                      {"x": (2,), "y": (2,)}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_gradient_others(name):
    build, shapes = OTHERS[name]
    check_gradients(build, **shapes)


def test_gradient_of_cross_entropy():
    rng = np.random.default_rng(3)
    x, labels = rng.normal(size=(6, 4)), rng.integers(0, 4, 6)
    module = nd.Module(S.softmax_output(nd.variable("x"), name="softmax"))
    module.bind(parameters={"x": ((6, 4), "float64")})
    module.parameter("x").assign(x)

    def loss():
        p = module.forward(label=labels).numpy()
        return -np.log(p[np.arange(6), labels]).sum()

    loss()
    module.backward()
    gradient = module.gradient("x").numpy().copy()
    for at in np.ndindex(6, 4):
        sums = []
        for step in (1e-5, -1e-5):
            moved = x.copy()
            moved[at] += step
            module.parameter("x").assign(moved)
            sums.append(loss())
        assert gradient[at] == pytest.approx((sums[0] - sums[1]) / 2e-5, rel=1e-6, abs=1e-8)


# ---- Symbols -------------------------------------------------------------------------------------------------------


def test_json(tmp_path):
    symbol = S.SoftmaxOutput(S.FullyConnected(S.dropout(S.Variable("data"), rate=0.3, name="drop"), 7, "fc"), name="softmax")
    symbol.save(tmp_path / "net.json")
    again = nd.load_symbol(str(tmp_path / "net.json"))
    assert again.arguments == symbol.arguments == ["data", "fc_weight", "fc_bias", "softmax_label"]
    assert again.to_json() == symbol.to_json()
    assert again.infer("fc_weight", data=(5, 2, 3)) == ((7, 6), np.float32)
    assert again.infer(data=((5, 2, 3), "float64")) == ((5, 7), np.float64)
    assert again.infer("softmax_label", data=(5, 3)) == ((5,), np.int64)


def test_bad_symbols():
    x = S.Variable("x")
    with pytest.raises(nd.Error, match="'sum1' of 'left', 'right': add: shapes"):
        S.add(S.exp(x, name="left"), S.exp(S.Variable("y"), name="right"), name="sum1").infer(x=(2, 3), y=(4,))
    with pytest.raises(nd.Error, match="shape of input 0 is not known"):
        S.exp(x).infer()
    with pytest.raises(nd.Error, match="no variable 'z'"):
        S.exp(x).infer(z=(2,))
    with pytest.raises(nd.Error, match="two nodes .* the name 'same'"):
        S.exp(S.exp(x, name="same"), name="same").infer(x=(2,))
    for text, what in (("{", "no symbol"), ('{"format": "tern-symbol 1", "nodes": [{"name": "a", "op": "nix"}]}', "'nix'"),
                       ('{"format": "tern-symbol 1", "nodes": [{"name": "a", "op": "exp", "inputs": [0]}]}', "before it"),
                       ('{"format": "tern-symbol 1", "nodes": []}', "no nodes"),
                       ('{"format": "tern-symbol 1", "nodes": [{"name": "a b"}]}', "no name")):
        with pytest.raises(nd.Error, match=what):
            nd.load_symbol(text)


# ---- Modules and iterators -----------------------------------------------------------------------------------------


def made_up(n, seed):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).uniform(0, 1, (10, 6, 6)).astype(np.float32)
    labels = rng.integers(0, 10, n)
    return centres[labels] + rng.normal(0, 0.3, (n, 6, 6)).astype(np.float32), labels


def trained(epochs=3, **options):
    net = S.SoftmaxOutput(S.FullyConnected(S.dropout(S.Activation(S.FullyConnected(S.Variable("data"), 32, "fc1"), "relu"),
                                                     rate=0.2, seed=5, name="drop"), 10, "fc2"), name="softmax")
    module = nd.Module(net, **options)
    module.init_params(nd.Xavier(), seed=3)
    module.init_optimizer("momentum", {"rate": 0.1})
    module.bind(data=(50, 6, 6))
    train = nd.Iterator(*made_up(2000, 1), 50, seed=9)
    module.fit(train, epochs)
    return module


def test_training_does_not_depend_on_threads_fusion_and_plan(tmp_path):
    module = trained()
    accuracy, loss = module.score(nd.Iterator(*made_up(510, 2), 50))
    assert accuracy > 0.95 and loss < 0.3
    planned, separate = module.memory()
    assert planned < separate
    for threads in (1, 4):
        nd.set_threads(threads)
        for fuse in (True, False):
            other = trained(fuse=fuse, plan=not fuse)
            for name in module.names:
                assert np.array_equal(other.parameter(name).numpy(), module.parameter(name).numpy())
    module.save(tmp_path / "m.safetensors")
    fresh = nd.Module(nd.load_symbol(module._symbol.to_json()), predicting=True).bind(data=(50, 6, 6))
    fresh.load(tmp_path / "m.safetensors")
    assert fresh.score(nd.Iterator(*made_up(510, 2), 50)) == (accuracy, loss)
    with pytest.raises(nd.Error, match="bound for predicting"):
        fresh.forward(nd.zeros((50, 6, 6)))
    small = nd.Module(mlp()).bind(data=(2, 2))
    with pytest.raises(nd.Error, match="no tensor"):
        small.load(tmp_path / "m.safetensors")
    cut = (tmp_path / "m.safetensors").read_bytes()[:-9]
    (tmp_path / "cut").write_bytes(cut)
    with pytest.raises(nd.Error, match="does not lie in the data"):
        fresh.load(tmp_path / "cut")


def test_bad_modules():
    module = nd.Module(mlp())
    with pytest.raises(nd.Error, match="not bound"):
        module.backward()
    module.bind(data=(4, 3))
    with pytest.raises(nd.Error, match="needs a forward"):
        module.backward()
    with pytest.raises(nd.Error, match=r"shape \(4, 3\), not \(3, 4\)"):
        module.forward(nd.zeros((3, 4)))
    with pytest.raises(nd.Error, match="no optimizer: sgd"):
        module.init_optimizer("sdg")
    with pytest.raises(nd.Error, match="no parameter 'nix'"):
        module.parameter("nix")
    module._optimizer = None
    module.forward(nd.zeros((4, 3)), label=np.array([0, 1, 2, 10]))
    module.backward()
    with pytest.raises(nd.Error, match="softmax_output_gradient: label 10 at place 3 is not in 0 .. 9"):
        module.get_gradients()[0].numpy()


def test_optimizers():
    """sgd, momentum and adam against their formulas."""
    for name, parameters in (("sgd", {"rate": 0.1}), ("momentum", {"rate": 0.1, "decay": 0.8}),
                             ("adam", {"rate": 0.1, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-6})):
        module = nd.Module(S.sum(S.multiply(S.Variable("data"), S.square(S.Variable("w"), name="sq"), name="m"), name="s"))
        module.init_optimizer(name, parameters, scale=0.5)
        module.bind(data=((3,), "float64"), parameters={"w": ((3,), "float64")})
        w = np.array([1.0, -2.0, 3.0])
        module.parameter("w").assign(w)
        m, v, x = np.zeros(3), np.zeros(3), np.array([1.0, 2.0, 0.5])
        for t in range(1, 5):
            module.forward(x)
            module.backward()
            module.update()
            g = 0.5 * 2 * w * x
            if name == "sgd":
                w = w - 0.1 * g
            elif name == "momentum":
                m = 0.8 * m + g
                w = w - 0.1 * m
            else:
                m, v = 0.8 * m + (1 - 0.8) * g, 0.95 * v + (1 - 0.95) * g * g
                w = w - 0.1 * (m / (1 - 0.8**t)) / (np.sqrt(v / (1 - 0.95**t)) + 1e-6)
            np.testing.assert_allclose(module.parameter("w").numpy(), w, rtol=1e-12)


def test_iterator():
    data, labels = np.arange(23, dtype=np.float32).reshape(23, 1), np.arange(23)
    seen = [(d.numpy().ravel().tolist(), n) for d, _, n in nd.Iterator(data, labels, 5)]
    assert [n for _, n in seen] == [5, 5, 5, 5, 3] and seen[4][0] == [20, 21, 22, 0, 1]
    assert len([0 for _ in nd.Iterator(data, labels, 5, drop_last=True)]) == 4
    parts = [[int(x) for _, y, n in nd.Iterator(data, labels, 4, part=p, parts=3) for x in y.numpy()[:n]] for p in range(3)]
    assert sorted(sum(parts, [])) == list(range(23)) and parts[1] == list(range(1, 23, 3))
    shuffled = nd.Iterator(data, labels, 4, seed=3)
    epochs = [[int(x) for _, y, n in shuffled for x in y.numpy()[:n]] for _ in range(2)]
    assert epochs[0] != epochs[1] and all(sorted(e) == list(range(23)) for e in epochs)
    # resumed in the middle of the second epoch
    resumed = nd.Iterator(data, labels, 4, seed=3)
    resumed.seek(1, 8)
    assert [int(x) for _, y, n in resumed for x in y.numpy()[:n]] == epochs[1][8:]
    with pytest.raises(nd.Error, match="23 rows of data and 22 labels"):
        nd.Iterator(data, labels[:22], 4)


def test_flips_and_crops():
    images = np.arange(1, 2 * 3 * 5 * 4 + 1, dtype=np.float32).reshape(6, 5, 4)
    images = np.stack([images, -images], 1)  # 6 images of 2 planes
    labels = np.arange(6)
    made = nd.Iterator(images, labels, 6, seed=2, flip=True, crop=2)
    epochs = [(x.numpy().copy(), y.numpy().copy()) for _ in range(40) for x, y, _ in made]
    seen = set()
    for batch, order in epochs:
        for found, label in zip(batch, order):
            padded = np.pad(images[label], ((0, 0), (2, 2), (2, 2)))
            fits = [(f, y, x) for f in (0, 1) for y in range(5) for x in range(5)
                    if np.array_equal(padded[:, y:y + 5, x:x + 4][:, :, ::-1 if f else 1], found)]
            assert fits
            seen.update(fits)
    assert len(seen) == 50  # each of them, 240 times in all
    resumed = nd.Iterator(images, labels, 6, seed=2, flip=True, crop=2)
    resumed.seek(7, 0)
    assert all(np.array_equal(x.numpy(), epochs[7][0]) for x, _, _ in resumed)
    with pytest.raises(nd.Error, match="flipped and cropped"):
        nd.Iterator(images[:, 0, 0], labels, 6, flip=True)
    with pytest.raises(nd.Error, match="larger than the crop"):
        nd.Iterator(images, labels, 6, crop=4)


def test_files(tmp_path):
    rng = np.random.default_rng(4)
    for dtype in ("<f4", "<f8", "<i4", "<i8", "u1"):
        x = rng.integers(0, 200, (3, 4, 5)).astype(dtype)
        np.save(tmp_path / "x.npy", x)
        assert np.array_equal(nd.load(tmp_path / "x.npy").numpy(), x)
    codes = {"u1": 8, ">i4": 12, ">f4": 13, ">f8": 14}
    for dtype, code in codes.items():
        x = rng.integers(0, 200, (7, 2)).astype(dtype)
        with gzip.open(tmp_path / "x.gz", "wb") as file:
            file.write(struct.pack(">BBBBII", 0, 0, code, 2, 7, 2) + x.tobytes())
        assert np.array_equal(nd.load(tmp_path / "x.gz").numpy(), x)
    (tmp_path / "x.csv").write_text("a,b\n1,2.5\n\n-3; 4e2\n")
    assert nd.load(tmp_path / "x.csv").numpy().tolist() == [[1, 2.5], [-3, 400]]
    (tmp_path / "x.svm").write_text("1 1:0.5 3:2\n# a remark\n-1 2:7 # more\n")
    data, labels = nd.load_libsvm(tmp_path / "x.svm")
    assert data.numpy().tolist() == [[0.5, 0, 2], [0, 7, 0]] and labels.numpy().tolist() == [1, -1]
    images, labels = rng.integers(0, 256, (4, 3, 32, 32)).astype("u1"), np.array([3, 0, 9, 1], "u1")
    records = b"".join(bytes([label]) + image.tobytes() for image, label in zip(images, labels))
    (tmp_path / "batch.bin").write_bytes(records)
    found = nd.load_cifar(tmp_path / "batch.bin")
    assert np.array_equal(found[0].numpy(), images) and np.array_equal(found[1].numpy(), labels)
    for wrong, what in ((records[:-1], "no multiple of 3073"), (b"\x0a" + records[1:], "image 0 .* the label 10")):
        (tmp_path / "batch.bin").write_bytes(wrong)
        with pytest.raises(nd.Error, match=what):
            nd.load_cifar(tmp_path / "batch.bin")
    for text, what in (("1,2\n3\n", "line 2 has 1 numbers"), ("", "no row"), ("1\nx\n", "line 2 has something")):
        (tmp_path / "x.csv").write_text(text)
        with pytest.raises(nd.Error, match=what):
            nd.load(tmp_path / "x.csv")
    (tmp_path / "cut.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-1])
    with pytest.raises(nd.Error, match="59 bytes of elements, and its header says 60"):
        nd.load(tmp_path / "cut.npy")
    with pytest.raises(nd.Error, match="cannot be opened"):
        nd.load(tmp_path / "nowhere.npy")


FASHION = "/usr/share/datasets/fashion-mnist"  # of the Debian package dataset-fashion-mnist


@pytest.mark.skipif(not os.path.exists(FASHION), reason="the package dataset-fashion-mnist is not installed")
def test_fashion_mnist():
    def read(part, n):
        images = nd.load(f"{FASHION}/{part}-images-idx3-ubyte.gz")[:n] / 255.0
        return images.astype("float32"), nd.load(f"{FASHION}/{part}-labels-idx1-ubyte.gz")[:n]

    module = nd.Module(mlp())
    module.init_params()
    module.init_optimizer("momentum", {"rate": 0.05})
    module.bind(data=(100, 28, 28))
    module.fit(nd.Iterator(*read("train", 20000), 100, seed=1), 2)
    accuracy, _ = module.score(nd.Iterator(*read("t10k", 10000), 100))
    assert accuracy > 0.8
