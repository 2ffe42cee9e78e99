"""tern.files: what is saved comes back, and files that are broken are refused."""

import numpy as np
import pytest
import tern
from tern import files


@pytest.fixture
def worker(node):
    return node.worker()


@pytest.mark.parametrize("suffix", ["npy", "safetensors", "vec", "txt", "bin"])
def test_dense_tables(node, worker, tmp_path, suffix):
    table = node.table("t", keys=20_000, length=3, init=tern.normal())
    path = tmp_path / f"rows.{suffix}"
    files.save(worker, table, path)
    other = node.table("u", keys=20_000, length=3)
    files.load(worker, other, path)
    keys = np.arange(20_000)
    assert np.array_equal(worker.pull(table, keys), worker.pull(other, keys))
    if suffix == "npy":
        assert np.array_equal(np.load(path), worker.pull(table, keys))


def test_sparse_tables(node, worker, tmp_path):
    table = node.table("t", length=2, dtype="float64")
    keys = np.array([2**63 + 5, 7, 2**40], np.uint64)
    worker.set(table, keys, np.arange(6.0).reshape(3, 2))
    files.save(worker, table, tmp_path / "a.safetensors")
    other = node.table("u", length=2, dtype="float64")
    files.load(worker, other, tmp_path / "a.safetensors")
    assert np.array_equal(worker.pull(other, keys), np.arange(6.0).reshape(3, 2))
    with pytest.raises(ValueError, match="sparse"):
        files.save(worker, table, tmp_path / "a.npy")


def test_words(node, worker, tmp_path):
    table = node.table("t", keys=2, length=3, init=tern.normal())
    for suffix in ("vec", "bin"):
        path = tmp_path / f"words.{suffix}"
        files.save(worker, table, path, words=["king", "Königin"])
        words, vectors = files.open_word2vec(path, suffix == "bin")
        assert words == ["king", "Königin"] and np.array_equal(vectors, worker.pull(table, np.arange(2)))
    with pytest.raises(ValueError, match="space"):
        files.save(worker, table, path, words=["a b", "c"])
    assert files.load(worker, table, path) == ["king", "Königin"]  # the file is as it was


@pytest.mark.parametrize("name, content", [
    ("a.safetensors", b""), ("a.safetensors", b"\xff" * 16), ("a.safetensors", b"\x02" + b"\0" * 7 + b"{}"),
    ("a.safetensors", b"\x40" + b"\0" * 7 + b'{"values":{"dtype":"F32","shape":[9,9],"data_offsets":[0,4]}}   '),
    ("a.vec", b"nonsense\n"), ("a.vec", b"2 3\na 1 2 3\nb 1 2\n"), ("a.bin", b"2 3\na 1234"), ("a.txt", b"-1 3\n"),
    ("a.npy", b"nonsense"), ("a.csv", b"1,2,3"),
])
def test_broken_files(node, worker, tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    table = node.table("t", keys=2, length=3)
    with pytest.raises(ValueError):
        files.load(worker, table, tmp_path / name)


def test_another_shape(node, worker, tmp_path):
    table = node.table("t", keys=2, length=3)
    np.save(tmp_path / "a.npy", np.zeros((3, 3), np.float32))
    np.save(tmp_path / "b.npy", np.zeros((2, 3)))
    for name in ("a.npy", "b.npy"):
        with pytest.raises(ValueError):
            files.load(worker, table, tmp_path / name)
