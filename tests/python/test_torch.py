"""tern.torch against torch itself, on one node and under every launcher."""

import os
import re
import shutil

import numpy as np
import pytest
import tern

torch = pytest.importorskip("torch")
import tern.torch as layers  # noqa: E402

pytestmark = pytest.mark.torch

N, DIM = 50, 8
OPTIMIZERS = {
    "sgd": (tern.sgd(0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
    "adagrad": (tern.adagrad(0.1), lambda p: torch.optim.Adagrad(p, lr=0.1)),
    "adam": (tern.adam(0.01), lambda p: torch.optim.Adam(p, lr=0.01)),
}


@pytest.fixture
def worker(node):
    torch.manual_seed(1)
    return node.worker()


def pair(worker, kind, update, **keywords):
    """torch's layer and ours with the same rows."""
    theirs = getattr(torch.nn, kind)(N, DIM, **keywords)
    ours = getattr(layers, kind)(worker, N, DIM, update=update, **keywords)
    ours.copy_(theirs.weight.data)
    return theirs, ours


def train(theirs, ours, optimizer, arguments, steps=10):
    """Ten steps of both; every forward pass and the rows at the end agree."""
    for step in range(steps):
        given = arguments(step)
        expected, got = theirs(*given), ours(*given)
        assert torch.allclose(expected, got, atol=1e-6)
        target = torch.randn_like(expected)
        ((expected - target) ** 2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        ((got - target) ** 2).mean().backward()
    assert (theirs.weight.data - ours.weight).abs().max() <= 1e-6


def some_keys(step, *shape):
    return torch.randint(0, N, shape)  # far more than N, so that keys repeat


def every_key(step, *shape):
    keys = torch.cat([torch.arange(N), torch.randint(0, N, (int(np.prod(shape)) - N,))])
    return keys[torch.randperm(len(keys))].view(shape)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("kind", ["Embedding", "EmbeddingBag"])
def test_same_weights_as_torch(worker, kind, name):
    update, optimizer = OPTIMIZERS[name]
    theirs, ours = pair(worker, kind, update)
    keys = every_key if name == "adam" else some_keys  # Tern counts Adam's steps per row
    train(theirs, ours, optimizer(theirs.parameters()), lambda step: (keys(step, 40, 5),))


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding_idx", [None, 3, -1])
def test_bags(worker, mode, padding_idx):
    update, optimizer = OPTIMIZERS["adagrad"]
    theirs, ours = pair(worker, "EmbeddingBag", update, mode=mode, padding_idx=padding_idx)
    optimizer = optimizer(theirs.parameters())

    def arguments(step):
        ends = torch.sort(torch.randint(0, 60, (19,))).values
        return torch.randint(0, N, (60,)), torch.cat([torch.zeros(1, dtype=torch.int64), ends])  # some bags are empty

    train(theirs, ours, optimizer, arguments)


def test_bags_with_last_offset_and_weights(worker):
    update, optimizer = OPTIMIZERS["sgd"]
    theirs, ours = pair(worker, "EmbeddingBag", update, mode="sum", include_last_offset=True)
    optimizer = optimizer(theirs.parameters())
    offsets = torch.tensor([0, 10, 10, 25, 60])
    for _ in range(10):
        keys = torch.randint(0, N, (60,))
        mine, other = (torch.randn(60, requires_grad=True) for _ in range(2))
        other.data.copy_(mine.data)
        expected, got = theirs(keys, offsets, other), ours(keys, offsets, mine)
        assert torch.allclose(expected, got, atol=1e-5)
        expected.pow(2).mean().backward()
        got.pow(2).mean().backward()
        assert torch.allclose(other.grad, mine.grad, atol=1e-5)
        optimizer.step()
        optimizer.zero_grad()
    assert (theirs.weight.data - ours.weight).abs().max() <= 1e-6


def test_padding_gets_no_gradient(worker):
    theirs, ours = pair(worker, "Embedding", tern.sgd(0.1), padding_idx=7)
    train(theirs, ours, torch.optim.SGD(theirs.parameters(), lr=0.1), lambda step: (some_keys(step, 40, 5),))
    fresh = layers.Embedding(worker, N, DIM, padding_idx=7, name="fresh")
    assert (fresh(torch.tensor([7])) == 0).all()


def test_scale_by_frequency(worker):
    theirs, ours = pair(worker, "Embedding", tern.sgd(0.1), scale_grad_by_freq=True)
    train(theirs, ours, torch.optim.SGD(theirs.parameters(), lr=0.1), lambda step: (some_keys(step, 40, 5),))


def test_used_twice_in_one_pass(worker):
    theirs, ours = pair(worker, "Embedding", tern.sgd(0.1))
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    a, b = torch.tensor([1, 2]), torch.tensor([2, 3])
    (theirs(a) * theirs(b)).sum().backward()
    optimizer.step()
    (ours(a) * ours(b)).sum().backward()
    assert (theirs.weight.data - ours.weight).abs().max() <= 1e-6


def test_sparse_tables_take_any_key(worker):
    layer = layers.Embedding(worker, None, DIM, name="sparse", update=tern.sgd(1.0), init=tern.zeros())
    keys = torch.tensor([-1, 2**62, 5, 5])
    layer(keys).sum().backward()
    assert layer.rows(keys)[:, 0].tolist() == [-1, -1, -2, -2]


def test_wrong_input(worker):
    layer = layers.Embedding(worker, N, DIM)
    with pytest.raises(ValueError, match="int64"):
        layer(torch.tensor([1], dtype=torch.int32))
    with pytest.raises(IndexError):
        layer(torch.tensor([N]))
    bag = layers.EmbeddingBag(worker, N, DIM, name="bag", mode="sum")
    with pytest.raises(ValueError, match="offsets"):
        bag(torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="offsets"):
        bag(torch.tensor([1, 2]), torch.tensor([0, 5]))
    with pytest.raises(ValueError, match="offsets"):
        bag(torch.tensor([1, 2]), torch.tensor([1]))
    with pytest.raises(ValueError, match="mode"):
        layers.EmbeddingBag(worker, N, DIM, mode="max")
    assert bag(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)).shape == (0, DIM)


def test_state_dict_holds_the_rows_or_says_how_to_save_them(worker, monkeypatch):
    model = torch.nn.Sequential(layers.Embedding(worker, N, DIM, name="a"), torch.nn.Linear(DIM, 1))
    state = model.state_dict()
    assert set(state) == {"0.weight", "1.weight", "1.bias"} and torch.equal(state["0.weight"], model[0].weight)
    state = {name: tensor + 1 for name, tensor in state.items()}
    model.load_state_dict(state)
    assert torch.equal(model[0].weight, state["0.weight"])
    del state["0.weight"]
    with pytest.raises(RuntimeError, match="0.weight"):
        model.load_state_dict(state)
    sparse = layers.Embedding(worker, None, DIM, name="s")
    sparse(torch.tensor([7, -9])).sum().backward()
    saved = sparse.state_dict()
    assert sorted(saved["keys"].tolist()) == [-9, 7]
    other = layers.Embedding(worker, None, DIM, name="s2")
    other.load_state_dict(saved)
    assert torch.equal(other.rows(torch.tensor([7, -9])), sparse.rows(torch.tensor([7, -9])))
    monkeypatch.setattr(layers, "STATE_LIMIT_BYTES", 100)
    for layer in (model[0], sparse):
        if layer is sparse:
            layer(torch.arange(50)).sum().backward()
        with pytest.raises(tern.Error, match="tern.files.save"):
            layer.state_dict()


# ---- Dense layers and loaders ----------------------------------------------------------------------------------------


def test_dense(worker):
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    theirs = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    theirs.load_state_dict(module.state_dict())
    ours = layers.Dense(module, worker, update=tern.sgd(0.1), row=8)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for _ in range(10):
        x = torch.randn(16, 4)
        theirs(x).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        ours(x).pow(2).mean().backward()
        ours.step()
    ours.pull()
    for expected, got in zip(theirs.parameters(), module.parameters()):
        assert torch.allclose(expected, got, atol=1e-6)


def test_averager_alone(node):
    module = torch.nn.Linear(3, 1)
    averager = layers.Averager(module, node)
    module(torch.ones(1, 3)).sum().backward()
    averager.average()
    assert (module.weight.grad == 1).all()


def test_loader(worker):
    layer = layers.Embedding(worker, N, DIM)
    batches = [torch.tensor([i, i + 1]) for i in range(10)]
    loader = layers.Loader(batches, keys=lambda batch: batch, layer=layer, ahead=3)
    begin = worker.clock
    assert [batch.tolist() for batch in loader] == [batch.tolist() for batch in batches]
    assert worker.clock == begin + 10 and len(loader) == 10
    several = layers.Loader(batches, keys=lambda batch: {layer: batch, (worker, layer.table): batch.numpy()})
    assert len(list(several)) == 10


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        return i


class Careless(Numbers):
    """Uses the layer of the parent in a worker of the DataLoader."""

    def __init__(self, layer):
        self.layer = layer

    def __getitem__(self, i):
        return self.layer(torch.tensor([i]))


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_data_loader(worker, context):
    layer = layers.Embedding(worker, N, DIM, update=tern.sgd(1.0), init=tern.zeros())
    batches = torch.utils.data.DataLoader(Numbers(), batch_size=5, num_workers=2, multiprocessing_context=context)
    for batch in layers.Loader(batches, keys=lambda batch: batch, layer=layer):
        layer(batch).sum().backward()
    assert (layer.weight[:20] == -1).all() and (layer.weight[20:] == 0).all()


def test_data_loader_that_uses_tern_in_a_fork(worker):
    layer = layers.Embedding(worker, N, DIM)
    batches = torch.utils.data.DataLoader(Careless(layer), num_workers=1, multiprocessing_context="fork")
    with pytest.raises(tern.ForkError, match="spawn"):
        list(batches)


# ---- Files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["npy", "safetensors", "vec", "bin"])
def test_files(worker, tmp_path, suffix):
    layer = layers.Embedding(worker, N, DIM)
    path = tmp_path / f"rows.{suffix}"
    tern.files.save(worker, layer.table, path)
    other = worker.node.table("other", keys=N, length=DIM)
    words = tern.files.load(worker, other, path)
    assert np.array_equal(worker.pull(other, np.arange(N)), layer.weight.numpy())
    assert words in (None, [str(i) for i in range(N)])


# ---- Several processes -----------------------------------------------------------------------------------------------

TRAIN = """
    import sys
    import numpy as np, torch, torch.distributed, tern, tern.torch
    torch.manual_seed(0)
    node = tern.Node()
    worker = node.worker()
    if "gloo" in sys.argv:
        torch.distributed.init_process_group("gloo")
    # Both nodes push the same gradients: the sum is twice that of one.
    layer = tern.torch.Embedding(worker, 20, 4, update=tern.sgd(1.0), init=tern.zeros())
    linear = torch.nn.Linear(3, 1)
    averager = tern.torch.Averager(linear, node, by="gloo" if "gloo" in sys.argv else "tern")
    dense = tern.torch.Dense(torch.nn.Linear(3, 1), worker, update=tern.sgd(1.0))
    start = dense.module.weight.detach().clone()
    node.barrier()  # all have read what they begin with
    batches = [torch.arange(20).view(4, 5)] * 3
    for batch in tern.torch.Loader(batches, keys=lambda batch: batch, layer=layer, ahead=2):
        layer(batch).sum().backward()
    (linear(torch.full((1, 3), float(node.index)))).sum().backward()
    averager.average()
    dense(torch.ones(1, 3)).sum().backward()
    dense.step()
    node.quiesce()
    dense.pull()
    moved = (start - dense.module.weight)[0, 0].item()
    print(f"node {node.index} of {node.count}: {layer.weight.sum().item():.0f} "
          f"{linear.weight.grad[0, 0].item():.2f} {moved:.2f}\\n", end="", flush=True)
    worker.close()
    node.close()
    """


def launchers(tern_command):
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    yield "tern", [tern_command, "run", "-n", "2", "--no-prefix", "--"]
    yield "mpirun", ["mpirun", *as_root, "--oversubscribe", "-n", "2"]
    # Debian 12's torchrun needs -r and -t under Python 3.11: without them it ends in `to_map`.
    yield "torchrun", ["torchrun", "--nnodes", "1", "--nproc_per_node", "2", "--rdzv_backend", "c10d",
                       "--rdzv_endpoint", "localhost:0", "-r", "9:1", "-t", "9:1"]


@pytest.mark.parametrize("name", ["tern", "mpirun", "torchrun", "torchrun with gloo"])
def test_launchers(script, tern_command, tmp_path, name):
    import subprocess
    import sys

    launcher = dict(launchers(tern_command))[name.split()[0]]
    if not shutil.which(launcher[0]):
        pytest.skip(f"there is no {launcher[0]}")
    path = script(TRAIN)
    command = [*launcher, path] if launcher[0] == "torchrun" else [*launcher, sys.executable, path]
    if "gloo" in name:
        command.append("gloo")
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=tmp_path)
    lines = sorted(re.findall(r"node . of 2: \S+ \S+ \S+", done.stdout))
    assert lines == [f"node {i} of 2: -480 0.50 2.00" for i in range(2)], done.stdout + done.stderr


def test_first_batch_of_a_loader(script, tern_command):
    """Its keys are here when it comes, though nobody could ask for them earlier."""
    import subprocess
    import sys

    path = script("""
    import torch, tern, tern.torch
    tern.torch.FIRST_WAIT_S = 100
    node = tern.Node()
    worker = node.worker()
    layer = tern.torch.Embedding(worker, 10_000, 4)
    keys = torch.arange(2000)
    for first in tern.torch.Loader([keys], keys=lambda batch: batch, layer=layer):
        here = worker.pull_if_local(layer.table, first)[1].all()
    print(f"node {node.index}: {here}\\n", end="", flush=True)
    node.barrier()
    worker.close()
    node.close()
    """)
    done = subprocess.run([tern_command, "run", "-n", "2", "--no-prefix", "--", sys.executable, path], capture_output=True,
                          text=True, timeout=240, env=os.environ | {"TERN_SHARE": "0"})
    assert sorted(done.stdout.split("\n")) == ["", "node 0: True", "node 1: True"], done.stdout + done.stderr


def test_beside_plain_torch_alone(script):
    import subprocess
    import sys

    done = subprocess.run([sys.executable, script(TRAIN)], capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("node 0 of 1: -240"), done.stdout + done.stderr
