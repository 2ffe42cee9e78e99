# first - the shortest useful program: it moves three rows of a million step by step towards 1.
import numpy as np
import tern

with tern.Node() as node:
    table = node.table("embeddings", keys=1_000_000, length=32, init=tern.normal(0, 0.1, seed=1))
    worker = node.worker()  # one per thread
    keys = np.array([7, 42, 999_999])
    for step in range(21):
        missing = 1 - worker.pull(table, keys)  # (3, 32) float32
        if step % 5 == 0:
            print(f"step {step:2}: mean squared distance from the goal {np.mean(missing**2):.6f}")
        worker.push(table, keys, np.float32(0.2) * missing)
        worker.advance()
