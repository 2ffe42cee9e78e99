#!/usr/bin/env python3
"""ResNet-20 on Fashion-MNIST: resnet.py [--folder FOLDER] [--epochs 20] [--rows 60000] [--test-rows 10000].

The network of He et al. (2015) for small images: three stages of three blocks with 16, 32 and 64 filters, and projections where
the shape changes; images mirrored and moved by up to 2 pixels. FOLDER has the four files of MNIST or Fashion-MNIST; the default
is that of Debian's package dataset-fashion-mnist.
"""

import argparse
import math

from tern import nd

S = nd.symbol


def network():
    def convolve(x, name, filters, kernel, stride):
        x = S.convolution(x, kernel=kernel, stride=stride, pad=kernel // 2, filters=filters, name=name)
        return S.batch_norm(x, name=f"{name}_norm")

    x = S.multiply(nd.variable("data"), S.constant(value=1 / 255, name="scale"), name="scaled")
    x = S.relu(convolve(x, "first", 16, 3, 1))
    for stage, filters in enumerate((16, 32, 64)):
        for block in range(3):
            name, stride = f"block{stage}{block}", 2 if stage and not block else 1
            inner = S.relu(convolve(x, f"{name}_a", filters, 3, stride))
            inner = convolve(inner, f"{name}_b", filters, 3, 1)
            x = S.relu(S.add(inner, convolve(x, f"{name}_p", filters, 1, 2) if stride == 2 else x))
    x = S.mean(x, axis=(2, 3), name="mean")
    return S.SoftmaxOutput(S.FullyConnected(x, num_hidden=10, name="fc"), name="softmax")


def read(folder, part, rows):
    images = nd.load(f"{folder}/{part}-images-idx3-ubyte.gz")[:rows]
    return images.reshape(-1, 1, 28, 28), nd.load(f"{folder}/{part}-labels-idx1-ubyte.gz")[:rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rows", type=int, default=60000, help="of the training set")
    parser.add_argument("--test-rows", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    train = nd.Iterator(*read(options.folder, "train", options.rows), 100, seed=options.seed, flip=True, crop=2)
    test = nd.Iterator(*read(options.folder, "t10k", options.test_rows), 100)
    module = nd.Module(network())
    module.init_params(nd.Xavier(), seed=options.seed)
    module.bind(data=(100, 1, 28, 28))
    for epoch in range(1, options.epochs + 1):
        rate = 0.05 * (1 + math.cos(math.pi * (epoch - 1) / options.epochs)) / 2
        module.init_optimizer("momentum", {"learning_rate": rate})
        module.fit(train)
        accuracy, loss = module.score(test)
        print(f"epoch {epoch}: test accuracy {accuracy:.4f}, cross entropy {loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
