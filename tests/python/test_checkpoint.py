"""Checkpoints from Python: written, looked at, read, restored; what does not fit is an exception with a sentence."""

import threading

import numpy as np
import pytest
import tern

KEYS = np.arange(0, 90, 3)


def fill(node, **options):
    worker = node.worker()
    table = node.table("t", keys=100, length=4, update=tern.adagrad(0.1), **options)
    worker.push(table, KEYS, np.ones((30, 4), np.float32))
    return worker, table


@pytest.fixture
def path(node, tmp_path):
    worker, table = fill(node)
    worker.advance()
    node.checkpoint_start(tmp_path / "one", notes={"position": b"7", "numbers": np.arange(3)})
    node.checkpoint_wait()
    values = worker.pull(table, np.arange(100))
    np.save(tmp_path / "values.npy", values)
    worker.close()
    table.close()
    return tmp_path / "one"


def test_what_is_in_it(path):
    with tern.Checkpoint(path) as checkpoint:
        checkpoint.verify()
        info = checkpoint.info()
        assert info["nodes"] == 1 and info["highest_clock"] == 1
        assert info["tables"] == [
            dict(name="t", update="adagrad", dtype="float32", keys=100, rows=100, length=4, state_length=4)
        ]
        assert checkpoint.note("position") == b"7"
        assert (np.frombuffer(checkpoint.note("numbers"), np.int64) == np.arange(3)).all()
    with pytest.raises(tern.ClosedError):
        checkpoint.info()


def test_rows(path):
    checkpoint = tern.Checkpoint(str(path))
    keys, values = checkpoint.read("t")
    assert (keys == np.arange(100)).all()
    assert (values == np.load(path.parent / "values.npy")).all()
    keys, values = checkpoint.read("t", 90, 4)
    assert keys.tolist() == [90, 91, 92, 93] and values.shape == (4, 4)
    assert checkpoint.read("t", first=100)[0].size == 0
    keys, values, states = checkpoint.read("t", 90, 4, states=True)
    assert states.shape == (4, checkpoint.info()["tables"][0]["state_length"])


def test_changes(node, tmp_path):
    """The second checkpoint has all rows, though most are in files of the first."""
    with node.worker() as worker:
        table = node.table("t", keys=1000, length=4)
        worker.push(table, np.arange(1000), np.ones((1000, 4), np.float32))
        for name in "first", "second":
            node.checkpoint_start(tmp_path / name, changes=True)
            node.checkpoint_wait()
            worker.push(table, np.array([7]), np.ones((1, 4), np.float32))
    linked = [file for file in (tmp_path / "first").iterdir() if file.stat().st_nlink > 1]
    assert linked
    with tern.Checkpoint(tmp_path / "second") as checkpoint:
        checkpoint.verify()
        rows = {}
        while (part := checkpoint.read("t", first=len(rows)))[0].size:
            rows |= {key: row.tolist() for key, row in zip(*part)}
    assert rows == {key: [2.0 if key == 7 else 1.0] * 4 for key in range(1000)}


def test_training_goes_on(path, node):
    """Also with the state of AdaGrad: the next step is as large as without a break."""
    table = node.table("t", keys=100, length=4, update=tern.adagrad(0.1))
    worker = node.worker()
    tern.Checkpoint(path).restore(table)
    before = worker.pull(table, KEYS)
    assert (before == np.load(path.parent / "values.npy")[KEYS]).all()
    worker.push(table, KEYS, np.ones((30, 4), np.float32))
    assert np.allclose(before - worker.pull(table, KEYS), 0.1 / np.sqrt(2), atol=1e-5)


def test_clock(path, node):
    worker = node.worker()
    with tern.Checkpoint(path) as checkpoint:
        checkpoint.restore_clock(worker)
        assert worker.clock == 1
        with pytest.raises(TypeError):
            checkpoint.restore_clock(node)


def test_other_number_of_nodes(path):
    values = np.load(path.parent / "values.npy")
    seen = []

    def run(i):
        with tern.Node(group="restore", node=i, nodes=3) as node:
            table = node.table("t", keys=100, length=4, update=tern.adagrad(0.1), policy="static")
            tern.Checkpoint(path).restore(table)
            node.barrier()
            seen.append(node.worker().pull(table, np.arange(100)))
            node.barrier()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 3 and all((one == values).all() for one in seen)


def test_bad_input(path, node, tmp_path):
    checkpoint = tern.Checkpoint(path)
    for attempt in (
        lambda: tern.Checkpoint(tmp_path / "none"),
        lambda: checkpoint.note("other"),
        lambda: checkpoint.note("position", node=1),
        lambda: checkpoint.read("other"),
        lambda: checkpoint.read("t", capacity=0),
        lambda: node.checkpoint_wait(),
        lambda: node.checkpoint_start(path),  # it exists
        lambda: node.checkpoint_start(tmp_path / "two", notes={"": b""}),
        lambda: checkpoint.restore(node.table("t", keys=100, length=5)),
    ):
        with pytest.raises(tern.InvalidError) as failure:
            attempt()
        assert len(str(failure.value)) > 10
    for attempt in (
        lambda: tern.Checkpoint(3),
        lambda: checkpoint.restore(3),
        lambda: node.checkpoint_start(tmp_path / "two", notes=[1]),
        lambda: node.checkpoint_start(tmp_path / "two", notes={1: b""}),
        lambda: node.checkpoint_start(tmp_path / "two", notes={"a": 3}),
    ):
        with pytest.raises(TypeError):
            attempt()
    assert not (tmp_path / "two").exists()


def test_damage_is_found(path):
    part = next(path.glob("part-*"))
    data = bytearray(part.read_bytes())
    data[-1] ^= 1
    part.write_bytes(data)
    with pytest.raises(tern.InvalidError, match="damaged"):
        tern.Checkpoint(path).verify()
