#!/usr/bin/env bash
# `tern train net`: an MLP and convolutions learn made-up images on one node and on two, what is written can be read, and what
# goes wrong is said.
. "$(dirname "$0")/lib.sh"

# Images of 8 x 8 pixels: one of four prototypes with noise. The files of MNIST's format.
python3 - "$tmp" <<'E_PY'
import gzip, random, struct, sys
random.seed(3)
prototypes = [[random.randrange(256) for _ in range(64)] for _ in range(4)]
for name, n in ("train", 600), ("t10k", 200):
    labels = [random.randrange(4) for _ in range(n)]
    images = b"".join(bytes(max(0, min(255, v + random.randrange(-90, 91))) for v in prototypes[k]) for k in labels)
    with gzip.open(f"{sys.argv[1]}/{name}-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">BBBBIII", 0, 0, 8, 3, n, 8, 8) + images)
    with gzip.open(f"{sys.argv[1]}/{name}-labels-idx1-ubyte.gz", "wb") as file:
        file.write(struct.pack(">BBBBI", 0, 0, 8, 1, n) + bytes(labels))
with open(f"{sys.argv[1]}/batch.bin", "wb") as file:  # CIFAR-10's
    for i in range(64):
        file.write(bytes([i % 2]) + bytes([200 * (i % 2) + random.randrange(50) for _ in range(3072)]))
E_PY

net() {
    try "$tern" train net --data "$tmp" --epochs 3 --hidden 32 --batch 32 --threads 1 "$@"
}

# learned - the accuracy of the last epoch is good.
learned() {
    [ "$status" -eq 0 ] && sed -n 's/.*"accuracy":\([0-9.]*\).*/\1/p' "$out" | tail -1 | awk '{ exit !($1 > 0.9) }'
}

# loss - of the last epoch.
loss() {
    sed -n 's/.*"loss":\([-0-9.e]*\).*/\1/p' "$out" | tail -1
}

net --json --dropout 0 --out "$tmp/model"
check "an MLP learns" learned
one=$(loss)
check "there is a line for each epoch" [ "$(grep -c '"epoch"' "$out")" -eq 3 ]
check "the graph and its parameters are kept" [ -s "$tmp/model/net.json" -a -s "$tmp/model/net.safetensors" ]
net --dropout 0 --out "$tmp/model"
check "a model is not replaced by accident" grep -q overwrite "$err"
net --json --dropout 0 --nodes 2
check "two nodes learn" learned
check "as well as one" awk -v a="$(loss)" -v b="$one" 'BEGIN { exit !(a < b + 0.1) }'
net --json --net cnn --channels 4,8 --optimizer adam --rate 0.01 --flip --crop 1
check "a network of convolutions ends" [ "$status" -eq 0 ]
net --json --net "$tmp/model/net.json"
check "a graph from a file learns" learned
try "$tern" train net --data "$tmp/batch.bin" --test "$tmp/batch.bin" --epochs 2 --batch 16 --hidden 8 --rate 0.01 --threads 1
check "the files of CIFAR-10 are read" [ "$status" -eq 0 ]
net --net nothing
check "an unknown network is refused" grep -q "not 'nothing'" "$err"
net --batch 1000
check "a batch larger than the data is refused" grep -q 'do not fit' "$err"
try "$tern" train net --data "$tmp/train-images-idx3-ubyte.gz"
check "labels must be given" grep -q 'which labels' "$err"
head -c 100 "$tmp/train-images-idx3-ubyte.gz" >"$tmp/cut.gz"
try "$tern" train net --data "$tmp/cut.gz" --labels "$tmp/train-labels-idx1-ubyte.gz"
check "a file that was cut is refused" [ "$status" -eq 1 ]
try "$tern" train net
check "without data it is a mistake of usage" [ "$status" -eq 2 ]
finish
