#!/usr/bin/env python3
"""A network of two hidden layers with dropout on Fashion-MNIST: mlp.py [--torch] [--seed 1] [--folder FOLDER] [--epochs 10].

784-512-512-10, batches of 100, momentum; the rate falls to 0 along half a cosine. --torch trains the same program in torch: layers,
first weights, dropout, batches, steps and rates are those of tern.nd, random numbers are torch's. FOLDER has the four files of
MNIST or Fashion-MNIST; the default is that of Debian's package dataset-fashion-mnist.
"""

import argparse
import math

from tern import nd

S = nd.symbol
BATCH, WIDTH, DROPOUT, RATE = 100, 512, 0.2, 0.05


def rate_of(epoch, epochs):
    return RATE * (1 + math.cos(math.pi * (epoch - 1) / epochs)) / 2


def train_tern(train, test, options):
    x = S.multiply(nd.variable("data"), S.constant(value=1 / 255, name="scale"), name="scaled")
    for layer in (1, 2):
        x = S.relu(S.FullyConnected(x, num_hidden=WIDTH, name=f"fc{layer}"), name=f"fc{layer}_relu")
        x = S.dropout(x, rate=DROPOUT, seed=10 * options.seed + layer, name=f"drop{layer}")
    x = S.SoftmaxOutput(S.FullyConnected(x, num_hidden=10, name="fc3"), name="softmax")
    module = nd.Module(x)
    module.init_params(nd.Xavier(), seed=options.seed)
    module.bind(data=(BATCH, 784))
    batches, tests = nd.Iterator(*train, BATCH, seed=options.seed), nd.Iterator(*test, BATCH)
    for epoch in range(1, options.epochs + 1):
        module.init_optimizer("momentum", {"learning_rate": rate_of(epoch, options.epochs)})
        module.fit(batches)
        yield module.score(tests)[0]


def train_torch(train, test, options):
    import torch

    torch.manual_seed(options.seed)
    (images, labels), (test_images, test_labels) = (
        (torch.from_numpy(x.numpy() / 255).float(), torch.from_numpy(y.numpy()).long()) for x, y in (train, test))
    n = torch.nn
    net = n.Sequential(n.Linear(784, WIDTH), n.ReLU(), n.Dropout(DROPOUT),
                       n.Linear(WIDTH, WIDTH), n.ReLU(), n.Dropout(DROPOUT), n.Linear(WIDTH, 10))
    for layer in (net[0], net[3], net[6]):
        n.init.xavier_uniform_(layer.weight)
        n.init.zeros_(layer.bias)
    loss = n.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9)
    for epoch in range(1, options.epochs + 1):
        optimizer.param_groups[0]["lr"] = rate_of(epoch, options.epochs)
        net.train()
        for rows in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            loss(net(images[rows]), labels[rows]).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            yield (net(test_images).argmax(1) == test_labels).float().mean().item()


def read(folder, part, rows):
    images = nd.load(f"{folder}/{part}-images-idx3-ubyte.gz")[:rows]
    return images.reshape(-1, 784), nd.load(f"{folder}/{part}-labels-idx1-ubyte.gz")[:rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rows", type=int, default=60000, help="of the training set")
    parser.add_argument("--test-rows", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--torch", action="store_true", help="the same program in torch")
    options = parser.parse_args()
    train = read(options.folder, "train", options.rows)
    test = read(options.folder, "t10k", options.test_rows)
    runs = (train_torch if options.torch else train_tern)(train, test, options)
    for epoch, accuracy in enumerate(runs, 1):
        print(f"epoch {epoch}: test accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
