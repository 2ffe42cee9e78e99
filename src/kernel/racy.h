/*
 * racy - the one file of deliberate data races.
 *
 * C calls a race undefined. Tern has two all the same, because what would avoid them (a latch for
 * readers, or one atomic load per element) costs more than the copy itself:
 *
 *   (a) A pull copies a row while a push may be changing it. The store reads the row's entry before
 *       and after the copy and discards a copy during which the entry changed (store/entry.h). So a
 *       mixed copy exists for a moment in the reader's buffer and is never used.
 *
 *   (b) tern_pin hands programs bare pointers to rows, by contract without latch or order (Hogwild).
 *       Tern's reads of such rows are these copies too; no entry changes, so a pull may see some
 *       elements of a program's write and not yet the others.
 *
 * Why this is sound in practice:
 *
 *   - The compiler cannot take advantage: every load is volatile, made once, in the written width,
 *     never invented, never turned into a call of memcpy.
 *   - An element is read whole. Loads are at least as wide as an element, and hardware splits one, if
 *     at all, at multiples of 8 bytes, where no aligned element lies across. So an element is an old
 *     or a new one, not a mixture, which is all that (b) promises.
 *   - The last bytes may be read twice, overlapping the block before; the later read stays. For (a)
 *     both are equal or the copy is discarded; for (b) both are values the element had.
 *
 * The copies order nothing against the entry: the fences are the caller's.
 *
 * What ThreadSanitizer sees: nothing in these functions. It still sees the writers: two unlatched
 * writers of one row are reported, and so is a push to a row that a program writes through a pinned
 * pointer at that moment.
 */
#ifndef KERNEL_RACY_H
#define KERNEL_RACY_H

#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_THREAD__)
#define RACY static __attribute__((no_sanitize("thread"), noinline, unused))
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RACY static __attribute__((no_sanitize("thread"), noinline, unused))
#endif
#endif
#ifndef RACY
#define RACY static inline __attribute__((always_inline))
#endif

typedef uint32_t racy_4 __attribute__((aligned(1), may_alias));
typedef uint64_t racy_8 __attribute__((aligned(1), may_alias));
typedef uint64_t racy_16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint64_t racy_32 __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint64_t racy_64 __attribute__((vector_size(64), aligned(1), may_alias));

/* Copies one word. */
#define RACY_WORD(word, to, from) (*(word *)(to) = *(const volatile word *)(from))

/* Two words, one at each end, cover every count from one word to two. */
#define RACY_ENDS(word, to, from, bytes)                                                 \
    do {                                                                                 \
        RACY_WORD(word, to, from);                                                       \
        RACY_WORD(word, (to) + (bytes) - sizeof(word), (from) + (bytes) - sizeof(word)); \
    } while (0)

/* At least one word: whole words, then the last one again where they did not reach the end. */
#define RACY_WORDS(word, to, from, bytes)                                                      \
    do {                                                                                       \
        size_t done = 0;                                                                       \
        for (; done + 4 * sizeof(word) <= (bytes); done += 4 * sizeof(word)) {                 \
            RACY_WORD(word, (to) + done, (from) + done);                                       \
            RACY_WORD(word, (to) + done + sizeof(word), (from) + done + sizeof(word));         \
            RACY_WORD(word, (to) + done + 2 * sizeof(word), (from) + done + 2 * sizeof(word)); \
            RACY_WORD(word, (to) + done + 3 * sizeof(word), (from) + done + 3 * sizeof(word)); \
        }                                                                                      \
        for (; done + sizeof(word) <= (bytes); done += sizeof(word))                           \
            RACY_WORD(word, (to) + done, (from) + done);                                       \
        if (done < (bytes))                                                                    \
            RACY_WORD(word, (to) + (bytes) - sizeof(word), (from) + (bytes) - sizeof(word));   \
    } while (0)

/* The copies: `bytes` is a positive multiple of 4. Each is named after its widest load. */

RACY void racy_copy_16(char *to, const char *from, size_t bytes)
{
    if (bytes >= 16)
        RACY_WORDS(racy_16, to, from, bytes);
    else if (bytes >= 8)
        RACY_ENDS(racy_8, to, from, bytes);
    else
        RACY_WORD(racy_4, to, from);
}

#if defined(__x86_64__)
RACY __attribute__((target("avx2"))) void racy_copy_32(char *to, const char *from, size_t bytes)
{
    if (bytes >= 32)
        RACY_WORDS(racy_32, to, from, bytes);
    else
        racy_copy_16(to, from, bytes);
}

RACY __attribute__((target("avx512f"))) void racy_copy_64(char *to, const char *from, size_t bytes)
{
    if (bytes >= 64)
        RACY_WORDS(racy_64, to, from, bytes);
    else
        racy_copy_16(to, from, bytes);
}
#endif

#endif
