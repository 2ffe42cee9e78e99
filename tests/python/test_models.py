"""tern.ctr and tern.gcn: readers, small runs that learn, and, where the data are, the figures of docs/python.md."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tern

torch = pytest.importorskip("torch")
from tern import _graphs, _logs, ctr  # noqa: E402

pytestmark = pytest.mark.torch

DATA = Path(os.environ.get("TERN_DATA", Path(__file__).resolve().parents[3] / "shared/data"))


def last_line(arguments, launcher=(), timeout=280, **variables):
    done = subprocess.run([*launcher, sys.executable, "-m", *arguments, "--json"], capture_output=True, text=True,
                          timeout=timeout, env={**os.environ, **variables})
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0 and lines, done.stdout + done.stderr
    return json.loads(lines[-1]), json.loads(lines[-2])


def needs(name):
    if not (DATA / name).exists():
        pytest.skip(f"there is no {DATA / name}")
    return str(DATA / name)


# ---- Readers ---------------------------------------------------------------------------------------------------------


def test_movielens(tmp_path):
    (tmp_path / "users.dat").write_text("1::F::1::10::48067\n2::M::56::16::70072\n")
    (tmp_path / "movies.dat").write_text("1::Toy Story (1995)::Animation|Comedy\n3::Old Men (1995)::Comedy\n")
    (tmp_path / "ratings.dat").write_text("1::1::5::0\n1::3::3::0\n2::3::1::0\n2::1::4::0\n")
    log = _logs.read(tmp_path)
    assert log.labels.tolist() == [1, 0, 1] and log.keys.shape == (3, 7)  # a rating of 3 is neither
    keys, offsets = log.bags[0]
    assert offsets.tolist() == [0, 2, 3, 5] and keys[0] == keys[3]
    assert log.keys.max() < log.n_features
    part = log.take(np.array([2, 1]))
    assert part.labels.tolist() == [1, 0] and part.bags[0][1].tolist() == [0, 2, 3]


def test_libfm_and_criteo(tmp_path):
    (tmp_path / "a.libfm").write_bytes(b"1 3:1 7:1\r\n-1 2:1 9:1\r\n")
    log = _logs.read(tmp_path / "a.libfm")
    assert log.keys.tolist() == [[3, 7], [2, 9]] and log.labels.tolist() == [1, 0] and log.n_features == 10
    (tmp_path / "b.libfm").write_text("1 3:1 7:1\n1 x\n")
    with pytest.raises(tern.InvalidError, match="line 2"):
        _logs.read(tmp_path / "b.libfm")
    names = ["Id", "Label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))]
    rows = [",".join(names), "7,1," + ",".join(["0", "", "-2", "9"] + ["1"] * 9 + ["abc"] * 26)]
    (tmp_path / "c.csv").write_text("\r\n".join(rows) + "\r\n")
    log = _logs.read(tmp_path / "c.csv")
    assert log.n_features is None and log.keys.shape == (1, 39) and log.numbers.shape == (1, 13)
    assert log.numbers[0, :4] == pytest.approx([0, 0, 0, np.log(10)])
    assert len(set(log.keys[0].tolist())) == 39  # equal values of different fields differ
    (tmp_path / "d.csv").write_text("a,b\n1,2\n")
    with pytest.raises(tern.InvalidError, match="header"):
        _logs.read(tmp_path / "d.csv")


def test_auc():
    assert ctr.auc(np.array([0, 0, 1, 1]), np.array([1.0, 2, 3, 4])) == 1
    assert ctr.auc(np.array([0, 1, 0, 1]), np.array([1.0, 1, 1, 1])) == 0.5
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    labels, scores = rng.integers(0, 2, 500), rng.integers(0, 50, 500).astype(float)
    assert ctr.auc(labels, scores) == pytest.approx(sklearn.roc_auc_score(labels, scores))


# ---- Graphs ----------------------------------------------------------------------------------------------------------


def two_cliques(n=40):
    """Two cliques with one edge between them; their nodes have different labels."""
    matrix = np.zeros((2 * n, 2 * n), int)
    matrix[:n, :n] = matrix[n:, n:] = 1
    matrix[0, n] = 1
    indptr = np.concatenate([[0], np.cumsum(matrix.sum(axis=1))])
    return indptr, np.nonzero(matrix)[1], np.repeat([3, 8], n)


def test_sampler():
    graph = _graphs.build(*two_cliques())
    assert np.diff(graph.indptr)[0] == 40 and np.diff(graph.indptr)[1] == 39  # symmetric, without loops
    seeds = np.array([1, 79, 0])
    counts = np.zeros(80)
    for seed in range(300):
        neighbours, offsets = graph.sample(seeds, 16, seed)
        assert offsets.tolist() == [0, 16, 32, 48]
        first = neighbours[:16]
        assert len(set(first.tolist())) == 16 and 1 not in first and (first < 40).all()
        counts[first] += 1
    drawn = np.delete(counts[:40], 1)
    assert drawn.sum() == 300 * 16 and drawn.min() > 60 and drawn.max() < 200  # 123 each, on average
    assert len(graph.sample(seeds, 100, 1)[0]) == 39 + 39 + 40
    with pytest.raises(tern.InvalidError):
        graph.sample(np.array([80]), 4, 1)
    with pytest.raises(tern.InvalidError):
        tern._tern.sample_neighbours(np.array([0, 5]), np.array([0]), np.array([0]), 1, 1, np.empty(1, np.int64),
                                     np.empty(2, np.int64))


def test_parts():
    graph = _graphs.build(*two_cliques())
    assert _graphs.cut_share(graph, _graphs.partition(graph, 2, "random", 1)) > 0.3
    try:
        part = _graphs.partition(graph, 2, "metis")
    except tern.InvalidError:
        pytest.skip("there is no METIS")
    assert _graphs.cut_share(graph, part) < 0.01 and set(part.tolist()) == {0, 1}


def test_pickles_need_trust(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, adj_matrix=np.array({"a": 1}, object), node_label=np.zeros(3))
    with pytest.raises(tern.InvalidError, match="--trust"):
        _graphs.read(path)
    np.savez(path, indptr=np.array([0, 1, 2]), indices=np.array([1, 0]), labels=np.array([0, 1]))
    assert _graphs.read(path).n == 2
    np.savez(path, indptr=np.array([0, 1, 2]), indices=np.array([1, 7]), labels=np.array([0, 1]))
    with pytest.raises(tern.InvalidError, match="index"):
        _graphs.read(path)


# ---- Runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model, how", [("wide-deep", "--dense=async"), ("wide-deep", "--plain"), ("dcn", "--dense=sync")])
def test_small_click_log(tern_command, model, how):
    launcher = [tern_command, "run", "-n", "1" if how == "--plain" else "2", "--no-prefix", "--"]
    # 8,001 examples at one node, 8,000 at the other: with --dense=sync, 65 batches of 125 and 64.
    result, epoch = last_line(["tern.ctr", "--data", "made-up:20002x2000", "--model", model, "--epochs", "2", "--batch",
                               "250", how], launcher)
    assert result["test_auc"] > 0.7 and epoch["nodes"] == (1 if how == "--plain" else 2)


def test_nodes_beside_processes_that_never_speak(tmp_path):
    """tern.bench nodes, with a command that prints what jobs would: the figures, their medians and limits."""
    command = tmp_path / "tern"
    command.write_text("""#!/bin/sh
case $* in
*--plain*) rate=100 share=0 ;;
*--silent*) rate=150 share=0 ;;
*static*) rate=50 share=0.5 ;;
*) rate=120 share=0.0004 ;;
esac
for epoch in 1 2 3; do
    echo "{\\"epoch\\": $epoch, \\"examples_per_s\\": $((rate * epoch)), \\"remote_share\\": $share}"
done
echo '{"test_auc": 0.9}'
""")
    command.chmod(0o755)
    done = subprocess.run([sys.executable, "-m", "tern.bench", "nodes", "--json", "--data", "x", "--command", str(command)],
                          capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line.get("ratio", line.get("value")), line["wanted"], line["met"]) for line in lines] == [
        (1.2, 0.85, True), (2.4, 3, False), (2.0, 0, True), (3.0, 0, True), (0.0004, 0.001, True)]


def test_processes_that_never_speak(tern_command):
    launcher = [tern_command, "run", "-n", "2", "--no-prefix", "--"]
    _, epoch = last_line(["tern.ctr", "--data", "made-up:2000x500", "--epochs", "1", "--silent", "--dense=sync"], launcher,
                         TERN_SHARE="0")
    assert epoch["bytes_per_batch"] == epoch["remote_share"] == 0 and epoch["nodes"] == 2


def test_memory_limit_of_a_large_log():
    result, epoch = last_line(["tern.ctr", "--data", "made-up:20000x33000000", "--epochs", "1", "--memory-limit",
                               "700000000"])
    assert epoch["memory_bytes"] <= 700_000_000 and result["test_auc"] > 0.6


def test_small_graph(tern_command, tmp_path):
    indptr, indices, labels = two_cliques(300)
    np.savez(tmp_path / "g.npz", indptr=indptr, indices=indices, labels=labels)
    arguments = ["tern.gcn", "--data", str(tmp_path / "g.npz"), "--epochs", "3", "--dim", "8"]
    assert last_line(arguments)[0]["test_accuracy"] > 0.98
    launcher = [tern_command, "run", "-n", "2", "--no-prefix", "--"]
    for partition in ("random", "metis"):
        result, _ = last_line([*arguments, "--partition", partition], launcher)
        assert result["test_accuracy"] > 0.98 and result["nodes"] == 2


def test_frappe(tern_command):
    train, test = needs("frappe/frappe.validation.libfm.zst"), needs("frappe/frappe.test.libfm.zst")
    launcher = [tern_command, "run", "-n", "2", "--no-prefix", "--"]
    result, _ = last_line(["tern.ctr", "--data", train, "--test", test, "--epochs", "1", "--batch", "512"], launcher)
    assert result["test_auc"] >= 0.928


def test_criteo_tiny():
    result, _ = last_line(["tern.ctr", "--data", needs("criteo-tiny/train.tiny.csv.zst"), "--epochs", "1"])
    assert 0.5 < result["test_auc"] <= 1


def test_amazon_photo():
    pytest.importorskip("scipy")
    result, _ = last_line(["tern.gcn", "--trust", "--data", needs("graph-npz/amazon_photo.npz"), "--epochs", "5"])
    assert result["test_accuracy"] >= 0.91
