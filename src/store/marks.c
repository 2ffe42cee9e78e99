/* marks - see marks.h. */
#include "store/marks.h"

#include "base/pages.h"

static size_t bytes_of(size_t n_words)
{
    return n_words * sizeof(uint64_t);
}

bool marks_init(struct marks *marks, uint64_t n)
{
    marks->n_words = (n + 63) / 64;
    marks->slots = pages_new(bytes_of(marks->n_words));
    marks->words = pages_new(bytes_of(marks->n_words / 64 + 1));
    return marks->slots && marks->words;
}

void marks_fini(struct marks *marks)
{
    pages_free(marks->slots, bytes_of(marks->n_words));
    pages_free(marks->words, bytes_of(marks->n_words / 64 + 1));
}

uint64_t marks_take(struct marks *marks, size_t *word, size_t end)
{
    for (size_t at = *word; at < end; at = (at / 64 + 1) * 64) {
        _Atomic uint64_t *of_words = &marks->words[at / 64];
        uint64_t words = atomic_load_explicit(of_words, memory_order_relaxed);
        for (words &= UINT64_MAX << at % 64; words; words &= words - 1) {
            size_t found = at / 64 * 64 + (size_t)__builtin_ctzll(words);
            if (found >= end)
                return 0;
            atomic_fetch_and_explicit(of_words, ~(words & -words), memory_order_relaxed);
            uint64_t bits =
                atomic_exchange_explicit(&marks->slots[found], 0, memory_order_acq_rel);
            if (!bits)
                continue;
            *word = found;
            return bits;
        }
    }
    return 0;
}
