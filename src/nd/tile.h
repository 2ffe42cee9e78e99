/*
 * tile - chains of elementwise operators whose values stay in vector registers.
 *
 * A tile is as many elements as TILE_VECTORS registers hold, the accumulator. The code of a program is a list of instructions
 * that load the accumulator, change it by an operand in memory and store it. A tile goes through all of them before the next
 * begins, so a value that only the next step reads is never stored, and one dispatch serves a whole tile. Each instruction
 * computes what the operator's body does, so it has the same bits. Any thread; allocates nothing.
 */
#ifndef ND_TILE_H
#define ND_TILE_H

#include "nd/elementwise.h"

enum { TILE_VECTORS = 16, TILE_MOST_CODE = PROGRAM_MAX_INPUTS + 3 * PROGRAM_MAX_STEPS + 2 };

/*
 * What an instruction does with the accumulator and an operand. STREAM stores past the caches, PREFETCH fetches the operand's part
 * of the tile after the next one, NOTHING stands for `copy`; in SUBTRACT_FROM and DIVIDE_INTO the accumulator is the right operand.
 */
/* clang-format off */
#define TILE_WHATS(X)                                                      \
    X(END) X(LOAD) X(STORE) X(STREAM) X(PREFETCH) X(NOTHING) X(ADD)        \
    X(SUBTRACT) X(MULTIPLY) X(DIVIDE) X(MAXIMUM) X(MINIMUM)                \
    X(SUBTRACT_FROM) X(DIVIDE_INTO) X(NEGATIVE) X(ABSOLUTE) X(SQUARE)      \
    X(RELU) X(RECIPROCAL)
/* clang-format on */
#define TILE_ENUM(name) TILE_##name,
enum tile_what { TILE_WHATS(TILE_ENUM) };

struct tile_code {
    enum tern_nd_type type;
    unsigned n;
    struct tile_instruction {
        uint8_t what, at; /* enum tile_what; a register of the program */
    } code[TILE_MOST_CODE];
};

/* How a program's operands lie in memory. */
struct tile_options {
    bool streams;      /* the result passes by the caches */
    unsigned prefetch; /* bit i: input i is fetched from memory ahead */
};

/* Whether a program has operators and types with instructions alone; writes its code then. Constants are not computed: their
 * registers hold them already. */
bool tile_compile(const struct program *program, struct tile_options options,
                  struct tile_code *code);

/* Carries out as many whole tiles of a block of n elements as it has, and returns the number of their elements. */
size_t tile_run(const struct tile_code *code, const void *const *registers, size_t n);

/* For tests: the longest vectors to use, in bytes: 16, 32 or 64. */
void tile_limit(size_t vector_bytes);

/* Whether an address will do for TILE_STREAM. */
bool tile_can_stream(const void *address);

/* The stores of TILE_STREAM are done when another thread is told so. */
void tile_fence(void);

#endif
