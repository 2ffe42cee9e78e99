#!/usr/bin/env python3
"""A convolutional network on Fashion-MNIST: cnn.py [--folder FOLDER] [--epochs 10] [--rows 60000] [--test-rows 10000].

FOLDER has the four files of MNIST or Fashion-MNIST; the default is that of Debian's package dataset-fashion-mnist. Two
convolutions with batch normalisation, images mirrored and moved by a pixel; the rate falls in the last epochs.
"""

import argparse

from tern import nd

S = nd.symbol


def network():
    def block(x, name, filters):
        x = S.convolution(x, kernel=3, pad=1, filters=filters, name=name)
        x = S.relu(S.batch_norm(x, name=f"{name}_norm"), name=f"{name}_relu")
        return S.pool(x, kernel=2, stride=2, name=f"{name}_pool")

    x = S.multiply(nd.variable("data"), S.constant(value=1 / 255, name="scale"), name="scaled")
    x = block(block(x, "conv1", 32), "conv2", 64)
    x = S.relu(S.FullyConnected(x, num_hidden=128, name="fc1"), name="fc1_relu")
    x = S.dropout(x, rate=0.3, seed=1, name="drop")
    return S.SoftmaxOutput(S.FullyConnected(x, num_hidden=10, name="fc2"), name="softmax")


def read(folder, part, rows):
    images = nd.load(f"{folder}/{part}-images-idx3-ubyte.gz")[:rows]
    return images.reshape(-1, 1, 28, 28), nd.load(f"{folder}/{part}-labels-idx1-ubyte.gz")[:rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rows", type=int, default=60000, help="of the training set")
    parser.add_argument("--test-rows", type=int, default=10000)
    options = parser.parse_args()
    train = nd.Iterator(*read(options.folder, "train", options.rows), 100, seed=1, flip=True, crop=1)
    test = nd.Iterator(*read(options.folder, "t10k", options.test_rows), 100)
    module = nd.Module(network())
    module.init_params(nd.Xavier(), seed=1)
    module.bind(data=(100, 1, 28, 28))
    for epoch in range(1, options.epochs + 1):
        left = 1 - (epoch - 1) / options.epochs
        module.init_optimizer("momentum", {"learning_rate": 0.05 * min(1, 2 * left) ** 2})
        module.fit(train)
        accuracy, loss = module.score(test)
        print(f"epoch {epoch}: test accuracy {accuracy:.4f}, cross entropy {loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
