/*
 * keys - draws rows, uniformly or by Zipf's law.
 */
#include "keys.h"

#include <math.h>
#include <stdlib.h>

#define ZIPF_EXPONENT 1.1
#define PERMUTATION_SEED 2006

/* The finaliser of splitmix64: a bijection. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t next_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(*state);
}

static uint64_t next_below(uint64_t *state, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)next_random(state) * bound) >> 64);
}

uint64_t keys_sparse(uint64_t row)
{
    return mix(row + UINT64_C(0x9e3779b97f4a7c15));
}

static double *zipf_cumulative(size_t n_rows)
{
    double *upto = malloc(n_rows * sizeof *upto);
    if (upto == NULL)
        return NULL;
    double sum = 0;
    for (size_t i = 0; i < n_rows; i++) {
        sum += pow((double)(i + 1), -ZIPF_EXPONENT);
        upto[i] = sum;
    }
    return upto;
}

static uint64_t *permutation(size_t n)
{
    uint64_t *to = malloc(n * sizeof *to);
    if (to == NULL)
        return NULL;
    uint64_t random = PERMUTATION_SEED;
    for (size_t i = 0; i < n; i++) {
        size_t j = next_below(&random, i + 1);
        to[i] = to[j];
        to[j] = i;
    }
    return to;
}

/* The first rank whose cumulative weight is above `weight`. */
static size_t rank_of(const double *upto, size_t n, double weight)
{
    size_t low = 0, high = n - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (upto[middle] > weight)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool key_law_init(struct key_law *law, size_t n_rows)
{
    *law = (struct key_law){
        .n_rows = n_rows, .upto = zipf_cumulative(n_rows), .row_of = permutation(n_rows)};
    if (law->upto != NULL && law->row_of != NULL)
        return true;
    key_law_fini(law);
    return false;
}

void key_law_fini(struct key_law *law)
{
    free(law->upto);
    free(law->row_of);
    *law = (struct key_law){0};
}

uint64_t key_law_draw(const struct key_law *law, double unit)
{
    return law->row_of[rank_of(law->upto, law->n_rows, unit * law->upto[law->n_rows - 1])];
}

static double unit_of(uint64_t random)
{
    return (double)(random >> 11) * 0x1p-53;
}

double keys_unit(uint64_t stream, uint64_t i)
{
    uint64_t random = mix(stream + 1) + i * UINT64_C(0x9e3779b97f4a7c15);
    return unit_of(next_random(&random));
}

static bool draw_zipf(const struct keys *keys, size_t n_rows, uint64_t random)
{
    struct key_law law;
    const bool ok = key_law_init(&law, n_rows);
    for (size_t i = 0; ok && i < keys->n; i++)
        keys->rows[i] = key_law_draw(&law, unit_of(next_random(&random)));
    if (ok)
        key_law_fini(&law);
    return ok;
}

static bool draw_uniform(const struct keys *keys, size_t n_rows, uint64_t random)
{
    for (size_t i = 0; i < keys->n; i++)
        keys->rows[i] = next_below(&random, n_rows);
    return true;
}

bool keys_init(struct keys *keys, enum keys_distribution distribution, size_t n_rows, size_t n,
               uint64_t stream)
{
    uint64_t random = mix(stream + 1);
    *keys = (struct keys){.n = n};
    keys->rows = malloc(n * sizeof *keys->rows);
    keys->sparse = malloc(n * sizeof *keys->sparse);
    bool ok = keys->rows != NULL && keys->sparse != NULL &&
              (distribution == KEYS_ZIPF ? draw_zipf : draw_uniform)(keys, n_rows, random);
    if (!ok) {
        keys_fini(keys);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        keys->sparse[i] = keys_sparse(keys->rows[i]);
    return true;
}

void keys_fini(struct keys *keys)
{
    free(keys->rows);
    free(keys->sparse);
    *keys = (struct keys){0};
}
