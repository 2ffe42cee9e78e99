"""tern.nd against numpy: every operator on random shapes, views, laziness, failures."""

import ctypes
import os
import pathlib

import numpy as np
import pytest

from tern import nd

SHAPES = int(os.environ.get("TERN_ND_SHAPES", "100"))
REAL = (np.float32, np.float64)
ALL = (np.float32, np.float64, np.int32, np.int64, np.uint8)


def shapes(rng, n_dims=8, most=300):
    """A random shape of few elements."""
    shape = []
    for _ in range(rng.integers(0, n_dims + 1)):
        room = most // max(1, int(np.prod(shape, dtype=np.int64)))
        shape.append(int(rng.integers(1, max(2, min(9, room + 1)))))
    return tuple(shape)


def numbers(rng, shape, dtype, low=-3.0, high=3.0):
    if np.dtype(dtype).kind == "u":
        low = 0
    value = rng.uniform(low, high, shape)
    return np.asarray(np.rint(value * 5) if np.dtype(dtype).kind in "iu" else value).astype(dtype)


def partner(rng, shape):
    """A shape that broadcasts with `shape`."""
    other = tuple(1 if rng.random() < 0.3 else n for n in shape)
    return other[rng.integers(0, len(other) + 1):]


def same(ours, theirs, tolerance=1e-6):
    ours = ours.numpy() if isinstance(ours, nd.Array) else ours
    assert ours.shape == theirs.shape
    if theirs.dtype == np.bool_:
        theirs = theirs.astype(np.uint8)
    assert ours.dtype == theirs.dtype
    if ours.dtype == np.float64:
        tolerance *= 1e-6
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def promoted(x, y):
    """Both with one type. numpy 1 has other rules for arrays without dimensions."""
    dtype = np.promote_types(x.dtype, y.dtype)
    return x.astype(dtype), y.astype(dtype)


def sigmoid(x):
    return np.asarray(1 / (1 + np.exp(-x))).astype(x.dtype)


UNARY = {  # operator: numpy's function, types, range
    "absolute": (np.abs, ALL, -3, 3), "ceil": (np.ceil, REAL, -3, 3), "copy": (np.copy, ALL, -3, 3),
    "cos": (np.cos, REAL, -3, 3), "exp": (np.exp, REAL, -3, 3), "expm1": (np.expm1, REAL, -3, 3),
    "floor": (np.floor, REAL, -3, 3), "isnan": (np.isnan, REAL, -3, 3), "log": (np.log, REAL, 0.1, 3),
    "log1p": (np.log1p, REAL, -0.9, 3), "logical_not": (np.logical_not, ALL, -3, 3),
    "negative": (np.negative, ALL, -3, 3), "reciprocal": (np.reciprocal, REAL, 0.5, 3),
    "relu": (lambda x: np.maximum(x, x.dtype.type(0)), ALL, -3, 3), "rint": (np.rint, REAL, -3, 3),
    "sigmoid": (sigmoid, REAL, -3, 3), "sign": (np.sign, ALL, -3, 3), "sin": (np.sin, REAL, -3, 3),
    "softplus": (lambda x: np.log1p(np.exp(x)), REAL, -3, 3), "sqrt": (np.sqrt, REAL, 0, 3),
    "square": (np.square, ALL, -3, 3), "stop_gradient": (np.copy, ALL, -3, 3), "tanh": (np.tanh, REAL, -3, 3),
}
BINARY = {
    "add": (np.add, ALL), "subtract": (np.subtract, ALL), "multiply": (np.multiply, ALL),
    "divide": (np.divide, REAL), "maximum": (np.maximum, ALL),
    "minimum": (np.minimum, ALL), "power": (np.power, REAL), "equal": (np.equal, ALL), "not_equal": (np.not_equal, ALL),
    "less": (np.less, ALL), "less_equal": (np.less_equal, ALL), "greater": (np.greater, ALL),
    "greater_equal": (np.greater_equal, ALL), "logical_and": (np.logical_and, ALL), "logical_or": (np.logical_or, ALL),
}
REDUCE = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    function, types, low, high = UNARY[name]
    rng = np.random.default_rng(1)
    for _ in range(SHAPES):
        dtype = types[rng.integers(len(types))]
        x = numbers(rng, shapes(rng), dtype, low, high)
        same(getattr(nd, name)(nd.wrap(x)), np.asarray(function(x)), 2e-6)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    function, types = BINARY[name]
    rng = np.random.default_rng(2)
    for _ in range(SHAPES):
        shape = shapes(rng)
        low = 0.2 if name in ("power", "divide") else -3
        x = numbers(rng, shape, types[rng.integers(len(types))], low)
        y = numbers(rng, partner(rng, shape), types[rng.integers(len(types))], low)
        x, y = (y, x) if rng.random() < 0.5 else (x, y)
        same(getattr(nd, name)(nd.wrap(x), nd.wrap(y)), np.asarray(function(*promoted(x, y))), 3e-6)


@pytest.mark.parametrize("name", REDUCE)
def test_reduce(name):
    rng = np.random.default_rng(3)
    for _ in range(SHAPES):
        types = REAL if name == "mean" else (np.float32, np.float64, np.int32, np.int64)
        x = numbers(rng, shapes(rng), types[rng.integers(len(types))])
        axes = tuple(int(a) for a in rng.permutation(x.ndim)[: rng.integers(0, x.ndim + 1)])
        axes = None if rng.random() < 0.2 else axes
        keep = bool(rng.random() < 0.5)
        # numpy adds f32 one by one; both are compared with the sum in f64
        exact = REDUCE[name](x.astype(np.float64) if x.dtype == np.float32 else x, axis=axes, keepdims=keep)
        same(getattr(nd, name)(nd.wrap(x), axis=axes, keepdims=keep),
             np.asarray(exact).astype(np.float32 if x.dtype == np.float32 else np.asarray(exact).dtype))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_arg(name):
    rng = np.random.default_rng(4)
    for _ in range(SHAPES):
        x = numbers(rng, shapes(rng) or (3,), ALL[rng.integers(5)])
        axis = None if rng.random() < 0.3 else int(rng.integers(-x.ndim, x.ndim))
        ours = getattr(nd, name)(nd.wrap(x), **({} if axis is None else {"axis": axis}))
        same(ours, np.asarray(getattr(np, name)(x, axis=axis)))


def test_shape_operators():
    rng = np.random.default_rng(5)
    for _ in range(SHAPES):
        x = numbers(rng, shapes(rng, 6) or (4,), ALL[rng.integers(5)])
        axes = tuple(int(a) for a in rng.permutation(x.ndim))
        same(nd.transpose(nd.wrap(x), axes=axes), x.transpose(axes))
        same(nd.wrap(x).transpose(axes), x.transpose(axes))
        same(nd.reshape(nd.wrap(x), shape=(-1,)), x.reshape(-1))
        wide = (2, *x.shape)
        same(nd.broadcast_to(nd.wrap(x), shape=wide), np.broadcast_to(x, wide))
        axis = int(rng.integers(x.ndim))
        same(nd.concat(nd.wrap(x), nd.wrap(x), nd.wrap(x), axis=axis), np.concatenate([x, x, x], axis))
        begin = [int(rng.integers(n)) for n in x.shape]
        end = [int(rng.integers(b, n)) + 1 for b, n in zip(begin, x.shape)]
        step = [int(rng.integers(1, 4)) for _ in x.shape]
        cut = tuple(slice(*parts) for parts in zip(begin, end, step))
        same(nd.slice(nd.wrap(x), begin=begin, end=end, step=step), x[cut])
        same(nd.wrap(x)[cut], x[cut])
        back = np.zeros_like(x)
        back[cut] = x[cut]
        same(nd.unslice(nd.wrap(x)[cut], begin=begin, shape=x.shape, step=step), back)
        thin = tuple(1 if rng.random() < 0.5 else n for n in x.shape)
        if x.dtype in REAL:
            sums = x.astype(np.float64).sum(tuple(i for i, n in enumerate(thin) if n == 1), keepdims=True).astype(x.dtype)
            same(nd.sum_to(nd.wrap(x), shape=thin), sums)


def test_where_clip_cast():
    rng = np.random.default_rng(6)
    for _ in range(SHAPES):
        x = numbers(rng, shapes(rng), ALL[rng.integers(5)])
        y = numbers(rng, partner(rng, x.shape), ALL[rng.integers(5)])
        c = numbers(rng, partner(rng, x.shape), np.uint8) > 4
        same(nd.where(nd.array(c), nd.wrap(x), nd.wrap(y)), np.where(c, *promoted(x, y)))
        z = numbers(rng, shapes(rng), REAL[rng.integers(2)])
        same(nd.clip(nd.wrap(z), low=-1.0, high=0.5), np.clip(z, z.dtype.type(-1), z.dtype.type(0.5)))
        to = ALL[rng.integers(4)]
        same(nd.cast(nd.wrap(x), type=to), x.astype(to))


def test_dot():
    rng = np.random.default_rng(7)
    for _ in range(SHAPES):
        m, n, k = rng.integers(1, 90, 3)
        dtype = REAL[rng.integers(2)]
        a, b = numbers(rng, (m, k), dtype), numbers(rng, (k, n), dtype)
        exact = (a.astype(np.float64) @ b.astype(np.float64)).astype(dtype)
        for ta in (0, 1):
            for tb in (0, 1):
                left, right = nd.array(a.T if ta else a), nd.array(b.T if tb else b)
                same(nd.dot(left, right, transpose_a=ta, transpose_b=tb), exact, 1e-4 if dtype is np.float32 else 1e-5)
        same(nd.wrap(a) @ nd.array(b.T).T, exact, 1e-4 if dtype is np.float32 else 1e-5)
    a, b = numbers(rng, (300, 700), np.float64), numbers(rng, (700, 520), np.float64)
    same(nd.dot(nd.wrap(a), nd.wrap(b)), a @ b, 1e-5)


def test_index_operators():
    rng = np.random.default_rng(8)
    for _ in range(SHAPES):
        x = numbers(rng, (int(rng.integers(1, 9)), *shapes(rng, 3)), np.float64)
        i = rng.integers(0, x.shape[0], shapes(rng, 3, 30))
        same(nd.take(nd.wrap(x), nd.array(i)), x[i])
        same(nd.one_hot(nd.array(i), depth=x.shape[0]), np.eye(x.shape[0], dtype=np.float32)[i])
        back = np.zeros_like(x)
        np.add.at(back, i, x[i])
        same(nd.untake(nd.array(x[i]), nd.array(i), rows=x.shape[0]), back)
        y = numbers(rng, (*shapes(rng, 3), 7), np.float64)
        e = np.exp(y - y.max(-1, keepdims=True))
        same(nd.softmax(nd.wrap(y)), e / e.sum(-1, keepdims=True))
        same(nd.log_softmax(nd.wrap(y)), np.log(e / e.sum(-1, keepdims=True)), 1e-5)


def test_made_and_random():
    same(nd.full((2, 3), 7, dtype="int32"), np.full((2, 3), 7, np.int32))
    same(nd.arange(shape=(10,), start=1.0, step=0.5), np.arange(10, dtype=np.float32) * np.float32(0.5) + 1)
    u = nd.random_uniform(shape=(100000,), low=-1.0, high=3.0).numpy()
    assert u.min() >= -1 and u.max() < 3 and abs(u.mean() - 1) < 0.02
    n = nd.random_normal(shape=(100000,), mean=2.0, deviation=3.0).numpy()
    assert abs(n.mean() - 2) < 0.05 and abs(n.std() - 3) < 0.05
    assert not np.array_equal(n, nd.random_normal(shape=(100000,), mean=2.0, deviation=3.0).numpy())
    assert np.array_equal(nd.random_uniform(shape=(9,), seed=5).numpy(), nd.random_uniform(shape=(9,), seed=5).numpy())
    d = nd.dropout(nd.ones((100000,)), rate=0.25).numpy()
    assert set(np.unique(d)) == {np.float32(0), np.float32(1 / 0.75)} and abs(d.mean() - 1) < 0.02


def test_every_operator_is_tested():
    text = "".join(file.read_text(encoding="utf-8") for file in pathlib.Path(__file__).parent.glob("test_nd*.py"))
    inside = {"softmax_output_gradient", "batch_norm_sums"}  # gradients, which symbols add
    assert [name for name in nd.OPERATORS if f"nd.{name}(" not in text and f"S.{name}(" not in text
            and f'"{name}"' not in text and name not in inside] == []
    assert len(nd.OPERATORS) <= 80


def test_python_operators():
    rng = np.random.default_rng(9)
    x, y = numbers(rng, (4, 5), np.float32), numbers(rng, (4, 5), np.float32, 1, 2)
    a, b = nd.array(x), nd.array(y)
    same(2 * a + 1, 2 * x + 1)
    same((a - b) / b, (x - y) / y)
    same(1 / b - a, 1 / y - x)
    same(b**2, y**2)
    same(-a > 0.5, -x > 0.5)
    same(abs(a) + nd.array(np.arange(5)), np.abs(x) + np.arange(5))
    same(nd.array(np.arange(4)) * 2.5, np.arange(4) * 2.5)
    assert float(a.sum()) == pytest.approx(float(x.sum()), rel=1e-5) and len(a) == 4


def test_views_share_memory():
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    a = nd.wrap(x)
    before = a * 1
    a[1:3, ::2] = -1
    a.T[5] += 100
    nd.wait_all()
    want = np.arange(24, dtype=np.float32).reshape(4, 6)
    want[1:3, ::2] = -1
    want[:, 5] += 100
    assert np.array_equal(x, want)
    assert np.array_equal(before.numpy(), np.arange(24, dtype=np.float32).reshape(4, 6))
    b = nd.array(x)
    b[1:] = b[:-1]  # they overlap
    want[1:] = want[:-1].copy()
    assert np.array_equal(b.numpy(), want)
    out = b.numpy()
    b += 1
    nd.wait_all()
    assert np.array_equal(out, want + 1)  # the same memory
    r = b.reshape(3, 8)
    r[0, 0] = 5
    nd.wait_all()
    assert out[0, 0] == 5


def test_lazy_and_fused():
    a, b, c = (nd.array(np.full(10000, v, np.float32)) for v in (2, 3, 4))
    nd.wait_all()
    before = nd._lib.tern_nd_operations()
    t = a * b
    c = t + c
    assert nd._lib.tern_nd_operations() == before
    del t
    assert c.numpy()[0] == 10
    assert nd._lib.tern_nd_operations() == before + 1


def test_a_program_of_assignments_has_numpys_outcome():
    rng = np.random.default_rng(10)
    for _ in range(30):
        ours, theirs = [], []
        for _ in range(4):
            x = numbers(rng, (5, 6), np.float64)
            theirs.append(x.copy())
            ours.append(nd.array(x))
        for _ in range(60):
            i, j, k = rng.integers(0, 4, 3)
            what = rng.integers(5)
            if what == 0:
                ours[i], theirs[i] = ours[j] + ours[k], theirs[j] + theirs[k]
            elif what == 1:
                ours[i] *= 0.5
                theirs[i] = theirs[i] * 0.5
            elif what == 2:
                ours[i][1:4] = ours[j][0:3]
                theirs[i][1:4] = theirs[j][0:3].copy()
            elif what == 3:
                ours[i][...] = ours[j].T.T - 1
                theirs[i][...] = theirs[j] - 1
            elif ours[i].numpy()[0, 0] != theirs[i][0, 0]:
                break
        for a, b in zip(ours, theirs):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-12)


def test_failures_have_sentences():
    with pytest.raises(nd.Error, match=r"add: shapes \(4,\) and \(2, 3\) do not broadcast"):
        nd.zeros((2, 3)) + nd.zeros(4)
    with pytest.raises(nd.Error, match="dimension 0 is 0"):
        nd.zeros((0, 3))
    with pytest.raises(nd.Error, match="2\\^40 bytes"):
        nd.zeros((1 << 30, 1 << 30))
    with pytest.raises(nd.Error, match="no attribute 'axes'"):
        nd.sum(nd.zeros(3), axes=0)
    with pytest.raises(nd.Error, match="axis 3"):
        nd.sum(nd.zeros(3), axis=3)
    with pytest.raises(nd.Error, match="cannot be multiplied"):
        nd.dot(nd.zeros((2, 3)), nd.zeros((2, 3)))
    with pytest.raises(nd.Error, match="float16"):
        nd.array(np.zeros(3, np.float16))
    with pytest.raises(AttributeError):
        nd.no_such_operator
    bad = nd.take(nd.zeros((3, 2)), nd.array([0, 7])) + 1
    good = nd.ones(3) + 1
    worse = bad * 2
    assert good.numpy()[0] == 2
    with pytest.raises(nd.Error, match="take: index 7 at place 1"):
        worse.numpy()
    array = nd.zeros(3)
    handle = array._handle
    nd._check(nd._lib.tern_array_close(ctypes.c_void_p(handle)))
    array._handle = 0
    with pytest.raises(nd.Error, match="was closed"):
        nd._check(
            nd._lib.tern_array_shape(ctypes.c_void_p(handle), ctypes.byref(nd._Shape())))


def test_memory_of_what_nobody_reads_any_more_is_used_again():
    rng = np.random.default_rng(5)
    a, b, c = (rng.random((300, 1000)).astype(np.float32) for _ in range(3))
    x, y, z = nd.array(a), nd.array(b), nd.array(c)
    nd.wait_all()
    for _ in range(5):  # in place: nobody else has z
        z = x * y + z
        c = a * b + c
        nd.wait_all()
    kept = z
    z = z * x  # not in place: `kept` has it
    nd.wait_all()
    assert np.array_equal(kept.numpy(), c) and np.array_equal(z.numpy(), c * a)
    both = nd.array(c)
    p, q = both + x, both * y  # two read it
    del both
    assert np.array_equal(p.numpy(), c + a) and np.array_equal(q.numpy(), c * b)
    row = nd.array(c)
    first = row[:1]  # a view
    row = row + x
    nd.wait_all()
    assert np.array_equal(first.numpy(), c[:1]) and np.array_equal(row.numpy(), c + a)
    wide = nd.array(c[:1])
    wide = wide + x  # another shape
    assert np.array_equal(wide.numpy(), c[:1] + a)


def test_long_chains_are_one_operation():
    x, y, z = nd.ones(1000), nd.full(1000, 2.0), nd.full(1000, 3.0)
    nd.wait_all()
    before = nd._lib.tern_nd_operations()
    value = ((x * y + z) * x - y) * z + x * (y - 0.5)
    nd.wait_all()
    assert nd._lib.tern_nd_operations() - before == 1
    assert value.numpy().tolist() == [((1 * 2 + 3) * 1 - 2) * 3 + 1 * 1.5] * 1000


def large_results():
    """What operators that divide their work give for large arrays."""
    rng = np.random.default_rng(3)

    def random(*shape):
        return nd.array(rng.normal(size=shape).astype(np.float32))

    a, b, images, weights, bias = random(300, 400), random(400, 500), random(9, 8, 28, 28), random(16, 8, 3, 3), random(16)
    out = random(9, 16, 28, 28)
    pooled = nd.pool(images, kernel=2, stride=2)
    statistics = nd.moments(images)
    results = [nd.dot(a, b), nd.dot(a.T, random(300, 500)), nd.dot(random(2, 600), random(600, 3000)),
               nd.fully_connected(a, random(700, 400), random(700), hidden=700), nd.exp(a) * a + nd.sum(a, axis=0),
               nd.random_normal(shape=(400, 500), seed=3), random(500, 600).T * 2,
               nd.convolution(images, weights, bias, kernel=3, pad=1, filters=16),
               nd.convolution_data(out, weights, kernel=3, pad=1, height=28, width=28),
               nd.convolution_weight(out, images, kernel=3, pad=1),
               pooled, nd.pool_gradient(pooled, images, pooled, kernel=2, stride=2, height=28, width=28), statistics,
               nd.batch_norm(images, nd.ones(8), nd.zeros(8), statistics),
               nd.batch_norm_sums(images, images, statistics)]
    return [r.numpy().copy() for r in results]


def test_large_operators_do_not_depend_on_threads():
    results = []
    for threads in (1, 2, 5):
        nd.set_threads(threads)
        results.append(large_results())
    plain = nd._lib.tern_nd_gemm() == b"plain"
    convolves_plain = nd._lib.tern_nd_convolution() == b"plain"
    for i, (one, two, five) in enumerate(zip(*results)):
        if plain and (convolves_plain or i != 9):  # oneDNN's gradient of weights is a sum per thread
            assert np.array_equal(one, two) and np.array_equal(one, five)
        np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(five, one, rtol=1e-4, atol=1e-3)


THREADS = """
import os
import numpy as np
from tern import nd

a = nd.array(np.ones((700, 700), np.float32))
for _ in range(20):
    a = nd.dot(a, a) * 1e-3
nd.wait_all()
print(len(os.listdir("/proc/self/task")))
"""


def test_no_more_threads_than_asked_for(run):
    for n in (1, 2, 3):
        job = run(THREADS, TERN_THREADS=str(n), OPENBLAS_NUM_THREADS="1")  # numpy may bring a BLAS with threads of its own
        assert job.returncode == 0, job.stderr
        assert int(job.stdout) == n


def test_the_operator_that_makes_nan_is_named():
    x = nd.array(np.array([4.0, -1.0, 2.0], np.float32))
    y = nd.exp(nd.sqrt(x) * 2)
    assert np.isnan(y.numpy()).tolist() == [False, True, False]
    nd.check_nan()
    try:
        y = nd.exp(nd.sqrt(x) * 2)
        with pytest.raises(nd.Error, match=r"sqrt: element 1 of the result, which has the shape \(3,\), is NaN"):
            y.numpy()
        z = nd.array(np.array([np.nan, 1.0], np.float32)) + 1  # handed on, not made
        assert np.isnan(z.numpy()[0])
        view = nd.array(np.array([[1.0, np.nan], [3.0, 4.0]], np.float32))[:, 0]
        assert nd.sqrt(view).numpy().shape == (2,)
        S = nd.symbol
        module = nd.Module(S.log(S.subtract(nd.variable("data"), nd.variable("shift"), name="moved"), name="logs"))
        module.bind(data=(2,), parameters={"shift": (2,)})
        module.parameter("shift").assign(nd.full(2, 5.0))
        with pytest.raises(nd.Error, match="log: logs: element 0 .* is NaN"):
            module.forward(data=np.ones(2, np.float32)).numpy()
    finally:
        nd.check_nan(False)
