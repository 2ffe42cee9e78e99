/* Replays the corpus of each fuzz target of this layer. */
#include "fuzz/replay.h"

/* The targets all have libFuzzer's one name; here they stand side by side under their own. */
int fuzz_arrays(const uint8_t *data, size_t size);
int fuzz_safetensors(const uint8_t *data, size_t size);
int fuzz_symbol(const uint8_t *data, size_t size);

#define LLVMFuzzerTestOneInput fuzz_arrays
#include "fuzz/fuzz_arrays.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_safetensors
#include "fuzz/fuzz_safetensors.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_symbol
#include "fuzz/fuzz_symbol.c"
#undef LLVMFuzzerTestOneInput

static void corpus_of_arrays_holds(void **state)
{
    (void)state;
    replay(fuzz_arrays, "arrays");
}

static void corpus_of_safetensors_holds(void **state)
{
    (void)state;
    replay(fuzz_safetensors, "safetensors");
}

static void corpus_of_symbol_holds(void **state)
{
    (void)state;
    replay(fuzz_symbol, "symbol");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corpus_of_arrays_holds),
        cmocka_unit_test(corpus_of_safetensors_holds),
        cmocka_unit_test(corpus_of_symbol_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
