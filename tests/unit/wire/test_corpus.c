/* Replays the corpus of each fuzz target of this layer. */
#include "fuzz/replay.h"

/* The targets all have libFuzzer's one name; here they stand side by side under their own. */
int fuzz_filter(const uint8_t *data, size_t size);
int fuzz_frame(const uint8_t *data, size_t size);
int fuzz_keys(const uint8_t *data, size_t size);
int fuzz_manifest(const uint8_t *data, size_t size);
int fuzz_pack(const uint8_t *data, size_t size);
int fuzz_part(const uint8_t *data, size_t size);
int fuzz_section(const uint8_t *data, size_t size);
int fuzz_task(const uint8_t *data, size_t size);

#define LLVMFuzzerTestOneInput fuzz_filter
#include "fuzz/fuzz_filter.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_frame
#include "fuzz/fuzz_frame.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_keys
#include "fuzz/fuzz_keys.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_manifest
#include "fuzz/fuzz_manifest.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_pack
#include "fuzz/fuzz_pack.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_part
#include "fuzz/fuzz_part.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_section
#include "fuzz/fuzz_section.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_task
#include "fuzz/fuzz_task.c"
#undef LLVMFuzzerTestOneInput

static void corpus_of_filter_holds(void **state)
{
    (void)state;
    replay(fuzz_filter, "filter");
}

static void corpus_of_frame_holds(void **state)
{
    (void)state;
    replay(fuzz_frame, "frame");
}

static void corpus_of_keys_holds(void **state)
{
    (void)state;
    replay(fuzz_keys, "keys");
}

static void corpus_of_manifest_holds(void **state)
{
    (void)state;
    replay(fuzz_manifest, "manifest");
}

static void corpus_of_pack_holds(void **state)
{
    (void)state;
    replay(fuzz_pack, "pack");
}

static void corpus_of_part_holds(void **state)
{
    (void)state;
    replay(fuzz_part, "part");
}

static void corpus_of_section_holds(void **state)
{
    (void)state;
    replay(fuzz_section, "section");
}

static void corpus_of_task_holds(void **state)
{
    (void)state;
    replay(fuzz_task, "task");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corpus_of_filter_holds),  cmocka_unit_test(corpus_of_frame_holds),
        cmocka_unit_test(corpus_of_keys_holds),    cmocka_unit_test(corpus_of_manifest_holds),
        cmocka_unit_test(corpus_of_part_holds),    cmocka_unit_test(corpus_of_pack_holds),
        cmocka_unit_test(corpus_of_section_holds), cmocka_unit_test(corpus_of_task_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
