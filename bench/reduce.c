/*
 * reduce - a trial: what one round of a table that every node has whole costs the busiest node, through
 * the owners of keys (core/replica.c) or by recursive doubling of sparse sets (NuPS, Section 3.2).
 *
 * Nothing is sent: sets of changed keys are drawn and the messages of both ways counted, with the frames of
 * docs/PROTOCOL.md. Every node changes each of 1000 keys of 32 floats with the probability given. Bytes and
 * messages are those a node sends and receives, the most of any node, means of 20 rounds.
 *
 * Through owners a node asks each of the others, and each answers with what is new: keys that anybody but
 * the asker has changed. By doubling, nodes exchange all they have gathered so far with one partner after
 * the other; of N nodes those beyond the largest power of two give theirs away first and get the sum last.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { KEYS = 1000, MAX_NODES = 64, HEADER_BYTES = 56, ROW_BYTES = 32 * 4 + 1, ROUNDS = 20 };

struct load {
    double bytes[MAX_NODES], messages[MAX_NODES];
};

static uint8_t changed[MAX_NODES][KEYS];
static uint64_t state = 1;

static void draw(int n_nodes, double probability)
{
    for (int i = 0; i < n_nodes; i++)
        for (int key = 0; key < KEYS; key++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            changed[i][key] = (double)(state >> 11) < probability * 0x1p53;
        }
}

static void send(struct load *load, int from, int to, size_t n_rows)
{
    double bytes = HEADER_BYTES + (double)(n_rows * ROW_BYTES);
    load->bytes[from] += bytes;
    load->bytes[to] += bytes;
    load->messages[from]++;
    load->messages[to]++;
}

/* Keys of an owner that `node` has changed; or, if `others`, that anybody else has. */
static size_t count(int n_nodes, int owner, int node, int others)
{
    size_t n = 0;
    for (int key = owner * KEYS / n_nodes; key < (owner + 1) * KEYS / n_nodes; key++) {
        int any = 0;
        for (int i = 0; i < n_nodes; i++)
            any |= changed[i][key] && (others ? i != node : i == node);
        n += (size_t)any;
    }
    return n;
}

static void through_owners(struct load *load, int n_nodes)
{
    for (int node = 0; node < n_nodes; node++)
        for (int owner = 0; owner < n_nodes; owner++) {
            if (owner == node)
                continue;
            send(load, node, owner, count(n_nodes, owner, node, 0));
            send(load, owner, node, count(n_nodes, owner, node, 1));
        }
}

static size_t n_set(const uint8_t *set)
{
    size_t n = 0;
    for (int key = 0; key < KEYS; key++)
        n += set[key];
    return n;
}

static void join(uint8_t *set, const uint8_t *more)
{
    for (int key = 0; key < KEYS; key++)
        set[key] |= more[key];
}

static void by_doubling(struct load *load, int n_nodes)
{
    static uint8_t sets[MAX_NODES][KEYS], before[MAX_NODES][KEYS];
    int n_doubling = 1;
    while (2 * n_doubling <= n_nodes)
        n_doubling *= 2;
    memcpy(sets, changed, sizeof sets);
    for (int i = n_doubling; i < n_nodes; i++) {
        send(load, i, i - n_doubling, n_set(sets[i]));
        join(sets[i - n_doubling], sets[i]);
    }
    for (int step = 1; step < n_doubling; step *= 2) {
        memcpy(before, sets, sizeof sets);
        for (int i = 0; i < n_doubling; i++) {
            send(load, i, i ^ step, n_set(before[i]));
            join(sets[i ^ step], before[i]);
        }
    }
    for (int i = n_doubling; i < n_nodes; i++)
        send(load, i - n_doubling, i, n_set(sets[i - n_doubling]));
}

static double most(const double *figures, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++)
        most = figures[i] > most ? figures[i] : most;
    return most / ROUNDS;
}

int main(void)
{
    static const int nodes[] = {2, 3, 4, 5, 8, 16, 32};
    static const double probabilities[] = {1, 0.1, 0.01, 0.001};
    printf("changed  nodes   owners: kB  messages   doubling: kB  messages   bytes, "
           "doubling/owners\n");
    for (size_t p = 0; p < sizeof probabilities / sizeof *probabilities; p++)
        for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
            struct load owners = {{0}, {0}}, doubling = {{0}, {0}};
            for (int round = 0; round < ROUNDS; round++) {
                draw(nodes[i], probabilities[p]);
                through_owners(&owners, nodes[i]);
                by_doubling(&doubling, nodes[i]);
            }
            double a = most(owners.bytes, nodes[i]), b = most(doubling.bytes, nodes[i]);
            printf("%7g  %5d  %11.1f  %8.0f  %13.1f  %8.0f  %22.2f\n", probabilities[p], nodes[i],
                   a / 1e3, most(owners.messages, nodes[i]), b / 1e3,
                   most(doubling.messages, nodes[i]), b / a);
        }
    return 0;
}
