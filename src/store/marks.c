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
    marks->slots = pages_new_growing(bytes_of(marks->n_words));
    marks->words = pages_new_growing(bytes_of(marks->n_words / 64 + 1));
    return marks->slots && marks->words;
}

void marks_fini(struct marks *marks)
{
    pages_free(marks->slots, bytes_of(marks->n_words));
    pages_free(marks->words, bytes_of(marks->n_words / 64 + 1));
}

size_t marks_bytes(uint64_t n)
{
    const size_t n_words = (n + 63) / 64;
    return bytes_of(n_words) + bytes_of(n_words / 64 + 1);
}

void marks_adopt(struct marks *marks, uint64_t n, void *memory)
{
    marks->n_words = (n + 63) / 64;
    marks->slots = memory;
    marks->words = marks->slots + marks->n_words;
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
            uint64_t bits = atomic_exchange_explicit(&marks->slots[found], 0, memory_order_acq_rel);
            if (!bits)
                continue;
            *word = found;
            return bits;
        }
    }
    return 0;
}

void marks_pour(struct marks *from, size_t end, struct marks *to, struct marks *also)
{
    uint64_t bits;
    for (size_t i = 0; (bits = marks_take(from, &i, end)) != 0; i++) {
        marks_put(to, i, bits);
        marks_put(also, i, bits);
    }
}

size_t marks_take_turn(struct marks *marks, struct marks_turn *turn, size_t end, size_t most,
                       uint32_t *slots, bool *is_left)
{
    size_t n = 0;
    *is_left = false;
    for (int lap = 0; lap < 2 && !*is_left;) {
        size_t word = turn->next / 64;
        uint64_t bits = marks_take(marks, &word, end);
        if (!bits) {
            turn->next = 0;
            turn->n_laps++;
            lap++;
            continue;
        }
        /* Those before the slot, if it is in this word, were taken last time, and have their turn later. */
        uint64_t before = ~(UINT64_MAX << turn->next % 64);
        uint64_t later = word == turn->next / 64 ? bits & before : 0;
        for (bits &= ~later; bits && n < most; bits &= bits - 1)
            slots[n++] = (uint32_t)(64 * word + (size_t)__builtin_ctzll(bits));
        if (later | bits)
            marks_put(marks, word, later | bits);
        turn->next = bits ? 64 * word + (size_t)__builtin_ctzll(bits) : 64 * (word + 1);
        *is_left = bits;
    }
    return n;
}
