"""The package in several processes: launchers, sums, a killed node, an exception at one node."""

import os
import re
import shutil
import subprocess

import pytest

SUMS = """
    import numpy as np, tern
    with tern.Node() as node:
        table = node.table("t", keys=1000, length=4, dtype="int64")
        sparse = node.table("s", length=4, dtype="int64")
        with node.worker() as worker:
            for step in range(20):
                keys = np.random.default_rng(step + 100 * node.index).integers(0, 1000, 100)
                worker.intent(table, keys, step, step + 1)
                worker.push(table, keys, np.ones((100, 4), np.int64))
                worker.push(sparse, keys - 500, np.ones((100, 4), np.int64))
                worker.advance()
            node.quiesce()
            sums = [int(worker.pull(table, np.arange(1000)).sum()),
                    int(worker.pull(sparse, np.arange(-500, 500)).sum())]
            total = node.all_reduce(np.array([node.index + 1.0]))
            word = node.broadcast(np.array([node.index], np.int64), root=node.count - 1)
            node.barrier()
        print(f"node {node.index} of {node.count}: {sums} {total[0]:.0f} {word[0]}", flush=True)
    """


def launchers():
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    found = [("tern", ["tern", "run", "-n", "2", "--no-prefix", "--"])]
    found.append(("tern --tcp", ["tern", "run", "-n", "2", "--tcp", "--no-prefix", "--"]))
    if shutil.which("mpirun"):
        found.append(("mpirun", ["mpirun", *as_root, "--oversubscribe", "-n", "2"]))
    return found


@pytest.mark.parametrize("name, launcher", launchers(), ids=[name for name, _ in launchers()])
def test_launchers(run, tern_command, name, launcher):
    done = run(SUMS, [tern_command if word == "tern" else word for word in launcher])
    lines = sorted(re.findall(r"node . of 2: \[\d+, \d+\] \d+ \d", done.stdout))
    assert lines == [f"node {i} of 2: [16000, 16000] 3 1" for i in range(2)], done.stdout + done.stderr


def test_long_arrays(run, tern_command):
    done = run("""
        import numpy as np, tern
        with tern.Node() as node:
            numbers = np.arange(700_001.0) + node.index
            node.all_reduce(numbers)
            same = np.array_equal(numbers, 2 * np.arange(700_001.0) + 1)
            numbers[:] = node.index
            node.broadcast(numbers, root=1)
            node.barrier()
            print(same and bool((numbers == 1).all()), flush=True)
        """, [tern_command, "run", "-n", "2", "--no-prefix", "--"])
    assert re.findall("True|False", done.stdout) == ["True", "True"], done.stderr


def test_alone(run):
    assert run(SUMS).stdout == "node 0 of 1: [8000, 8000] 1 0\n"


def test_nodes_in_threads(run):
    done = run("""
        import threading
        import numpy as np, tern
        def work(i):
            with tern.Node(group="threads", node=i, nodes=2) as node:
                table = node.table("t", keys=10, length=1)
                worker = node.worker()
                worker.push(table, np.arange(10), np.ones((10, 1), np.float32))
                node.quiesce()
                assert (worker.pull(table, np.arange(10)) == 2).all()
                node.barrier()
                done.append(i)
        done = []
        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(sorted(done))
        """)
    assert done.stdout == "[0, 1]\n", done.stderr


def test_a_killed_node_is_named(run, tern_command):
    done = run("""
        import os, signal, time
        import tern
        node = tern.Node()
        if node.index == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            node.barrier()
        except ConnectionError as error:
            print(type(error).__name__, error.status.name, error, flush=True)
        """, [tern_command, "run", "-n", "2", "--no-prefix", "--", "sh", "-c", '"$@" || :', "sh"], TERN_DEADLINE="2")
    assert "PeerError PEER" in done.stdout and "node 1" in done.stdout, done.stdout + done.stderr


def test_an_exception_at_one_node_ends_all(run, tern_command):
    done = run("""
        import tern
        with tern.Node() as node:
            if node.index == 1:
                raise RuntimeError("on purpose")
            node.barrier()
        """, [tern_command, "run", "-n", "2", "--no-prefix", "--"], TERN_DEADLINE="3")
    assert done.returncode != 0 and "on purpose" in done.stderr, done.stderr


@pytest.mark.parametrize("other", ["python3.12", "python3.13", "python3.14"])
def test_later_pythons(other, tmp_path):
    """One binary serves every later Python; where there is no numpy, arrays are memoryviews."""
    found = [shutil.which(other)] + [f"{root}/{other}" for root in
                                     (os.path.expanduser(f"~/.pyenv/versions/{version}/bin")
                                      for version in os.listdir(os.path.expanduser("~/.pyenv/versions")))
                                     if os.path.exists(f"{root}/{other}")] \
        if os.path.isdir(os.path.expanduser("~/.pyenv/versions")) else [shutil.which(other)]
    interpreter = next((path for path in reversed(found) if path), None)
    if not interpreter:
        pytest.skip(f"there is no {other}")
    text = """
import array, tern
with tern.Node() as node:
    table = node.table("t", keys=10, length=2)
    worker = node.worker()
    keys = array.array("q", [1, 2])
    worker.push(table, keys, memoryview(array.array("f", [1, 2, 3, 4])).cast("B").cast("f", (2, 2)))
    print(worker.pull(table, keys).tolist())
    node.register("f", lambda call: b"x" + call.argument)
    task = worker.submit("f", b"y", result_bytes=2)
    task.wait()
    print(task.results())
    with worker.pin(table, keys) as pin:
        pin.rows[0][0] = 5
    print(worker.pull(table, keys)[0, 0])
"""
    done = subprocess.run([interpreter, "-c", text], capture_output=True, text=True, timeout=60)
    if "No module named" in done.stderr and "tern" not in done.stderr.splitlines()[-1]:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.stdout == "[[1.0, 2.0], [3.0, 4.0]]\n[b'xy']\n5.0\n", done.stdout + done.stderr
