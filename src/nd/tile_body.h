/*
 * tile_body - the interpreter of tile.c for one type and one length of vectors. The includer defines REAL, BITS (an integer as
 * long), VECTOR (bytes of a register), TARGET, NAME(x), and STREAM(to, from), which stores a vector past the caches.
 */
typedef REAL NAME(vector) __attribute__((vector_size(VECTOR), aligned(sizeof(REAL)), may_alias));
typedef BITS NAME(bits) __attribute__((vector_size(VECTOR), aligned(sizeof(REAL)), may_alias));

#define EACH(M) \
    M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15)
#define ACCUMULATOR(i) NAME(vector) a##i = {0};
#define TILE_BYTES (TILE_VECTORS * VECTOR)
#define CHOOSE(mask, x, y) (NAME(vector))(((mask) & (NAME(bits))(x)) | (~(mask) & (NAME(bits))(y)))
#define LOAD_ONE(i) a##i = b[i];
#define STORE_ONE(i) b[i] = a##i;
#define STREAM_ONE(i) STREAM(b + i, a##i);
#define ADD_ONE(i) a##i = a##i + b[i];
#define SUBTRACT_ONE(i) a##i = a##i - b[i];
#define MULTIPLY_ONE(i) a##i = a##i * b[i];
#define DIVIDE_ONE(i) a##i = a##i / b[i];
#define SUBTRACT_FROM_ONE(i) a##i = b[i] - a##i;
#define DIVIDE_INTO_ONE(i) a##i = b[i] / a##i;
#define MAXIMUM_ONE(i) a##i = CHOOSE((a##i >= b[i]) | (a##i != a##i), a##i, b[i]);
#define MINIMUM_ONE(i) a##i = CHOOSE((a##i <= b[i]) | (a##i != a##i), a##i, b[i]);
#define NEGATIVE_ONE(i) a##i = -a##i;
#define WITHOUT_SIGN (BITS)(~(uint64_t)0 >> (65 - 8 * sizeof(BITS)))
#define ABSOLUTE_ONE(i) a##i = (NAME(vector))((NAME(bits))a##i & WITHOUT_SIGN);
#define SQUARE_ONE(i) a##i = a##i * a##i;
#define RELU_ONE(i) a##i = (NAME(vector))((NAME(bits))(a##i > 0) & (NAME(bits))a##i);
#define RECIPROCAL_ONE(i) a##i = 1 / a##i;

/* Goes to the next instruction. Each jumps by itself, so that the processor learns what follows what. */
#define NEXT                                                   \
    b = (NAME(vector) *)((uintptr_t)registers[next->at] + at); \
    goto *places[next++->what];
#define CASE(name) L_##name : EACH(name##_ONE) NEXT

TARGET static void NAME(run)(const struct tile_code *code, const void *const *registers,
                             size_t bytes)
{
    static const void *const places[] = {
#define PLACE(name) &&L_##name,
        TILE_WHATS(PLACE)
#undef PLACE
    };
    const struct tile_instruction *next = code->code;
    size_t at = 0;
    NAME(vector) * b;
    EACH(ACCUMULATOR)
    /* clang-format off */
    NEXT
L_END:
    at += TILE_BYTES;
    if (at >= bytes)
        return;
    next = code->code;
    NEXT
L_NOTHING:
    NEXT
L_PREFETCH:
    for (int line = 0; line < TILE_BYTES; line += 64)
        __builtin_prefetch((const char *)b + 2 * TILE_BYTES + line);
    NEXT
    CASE(LOAD)
    CASE(STORE)
    CASE(STREAM)
    CASE(ADD)
    CASE(SUBTRACT)
    CASE(MULTIPLY)
    CASE(DIVIDE)
    CASE(MAXIMUM)
    CASE(MINIMUM)
    CASE(SUBTRACT_FROM)
    CASE(DIVIDE_INTO)
    CASE(NEGATIVE)
    CASE(ABSOLUTE)
    CASE(SQUARE)
    CASE(RELU)
    CASE(RECIPROCAL)
    /* clang-format on */
}

#undef NEXT
#undef CASE
#undef TILE_BYTES
#undef EACH
#undef ACCUMULATOR
#undef CHOOSE
#undef LOAD_ONE
#undef STORE_ONE
#undef STREAM_ONE
#undef ADD_ONE
#undef SUBTRACT_ONE
#undef MULTIPLY_ONE
#undef DIVIDE_ONE
#undef SUBTRACT_FROM_ONE
#undef DIVIDE_INTO_ONE
#undef MAXIMUM_ONE
#undef MINIMUM_ONE
#undef NEGATIVE_ONE
#undef WITHOUT_SIGN
#undef ABSOLUTE_ONE
#undef SQUARE_ONE
#undef RELU_ONE
#undef RECIPROCAL_ONE
#undef REAL
#undef BITS
#undef NAME
