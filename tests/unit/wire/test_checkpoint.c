/* The format of checkpoints: manifests and parts are read as they were written, and each kind of damage is named. */
#include "support/check.h"
#undef fail

#include "wire/json.h"
#include "wire/manifest.h"
#include "wire/part.h"

static struct manifest manifest, more;
static struct part part;

static const char *decode(const char *text)
{
    return manifest_decode(text, strlen(text), &manifest);
}

static void skipping_passes_over_any_value(void **state)
{
    static const char *const good[] = {"1",
                                       "-2.5e-3",
                                       "true",
                                       "null",
                                       "\"\"",
                                       "\"a\\\"b\"",
                                       "[]",
                                       "{}",
                                       "[1,2]",
                                       "{\"a\":[{}],\"b\":\"\\u0041\"}",
                                       " [ [ ] , { } ] "};
    static const char *const bad[] = {
        "",   "[",     "[1,]", "{\"a\"}", "{1:2}",
        "\"", "[1 2]", "]",    "\"\\x\"", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["};
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        struct json json = {.at = good[i], .end = good[i] + strlen(good[i])};
        assert_true(json_skip(&json) && json_end(&json));
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct json json = {.at = bad[i], .end = bad[i] + strlen(bad[i])};
        assert_false(json_skip(&json) && json_end(&json));
        assert_non_null(json.wrong);
    }
}

static void numbers_are_whole_and_have_a_limit(void **state)
{
    static const char *const bad[] = {"18446744073709551616", "1.5", "01", "-1", "1e3", "x"};
    struct json json = {.at = "18446744073709551615"};
    uint64_t number;
    (void)state;
    json.end = json.at + strlen(json.at);
    assert_true(json_number(&json, &number));
    assert_true(number == UINT64_MAX);
    for (size_t i = 0; i < COUNT(bad); i++) {
        json = (struct json){.at = bad[i], .end = bad[i] + strlen(bad[i])};
        assert_false(json_number(&json, &number));
    }
}

static void fill(struct manifest *to, uint32_t node)
{
    *to = (struct manifest){.n_nodes = 2, .n_tables = 1};
    to->tables[0] = (struct manifest_table){.name = "a \"table\"\n",
                                            .updater = "add",
                                            .index = TERN_DENSE,
                                            .type = TERN_I64,
                                            .n_keys = 6,
                                            .length = 2,
                                            .n_rows = 3};
    const struct manifest_part rows = {
        .node = node, .n_rows = 3, .first_key = 3 * node, .bytes = 200, .hash = 7 + node};
    const struct manifest_part notes = {
        .table = MANIFEST_NOTES, .node = node, .has_keys = true, .bytes = 100};
    assert_true(manifest_add_part(to, &rows) && manifest_add_part(to, &notes) &&
                manifest_add_clock(to, node, 10 + node));
}

static void nodes_manifests_are_merged_and_read_again(void **state)
{
    struct buffer text = {0};
    (void)state;
    fill(&manifest, 0);
    fill(&more, 1);
    assert_null(manifest_merge(&manifest, &more));
    assert_true(manifest_encode(&manifest, &text));
    manifest_free(&manifest);
    assert_null(manifest_decode((char *)buffer_head(&text), buffer_size(&text), &manifest));
    assert_int_equal(manifest.n_parts, 4);
    assert_int_equal(manifest.tables[0].n_rows, 6);
    assert_string_equal(manifest.tables[0].name, "a \"table\"\n");
    assert_int_equal(manifest.parts[1].first_key, 3);
    assert_int_equal(manifest.parts[1].hash, 8);
    assert_int_equal(manifest.parts[2].table, MANIFEST_NOTES);
    assert_int_equal(manifest.n_clocks, 2);
    assert_int_equal(manifest.clocks[1].clock, 11);
    more.tables[0].length = 3;
    assert_non_null(manifest_merge(&manifest, &more));
    manifest_free(&manifest);
    manifest_free(&more);
    buffer_free(&text);
}

static void bad_manifests_are_named(void **state)
{
#define HEAD "{\"tern\": \"checkpoint 1\", \"nodes\": 1, \"clocks\": [[]], \"tables\": ["
#define TABLE                                                                   \
    "{\"name\": \"w\", \"index\": \"sparse\", \"type\": \"F32\", \"keys\": 0, " \
    "\"length\": 1, \"updater\": \"add\", \"state\": 0, \"rows\": 1}"
#define PART(file, bytes)                                                       \
    "{\"file\": \"" file "\", \"table\": \"w\", \"rows\": 1, \"bytes\": " bytes \
    ", \"xxh3\": \"0123456789abcdef\"}"
#define LAYER(number, layer)                                           \
    "{\"file\": \"part-0-" number                                      \
    ".safetensors\", \"table\": \"w\", \"rows\": 1, \"layer\": " layer \
    ", \"bytes\": 9, \"xxh3\": \"0123456789abcdef\"}"
#define TAIL "], \"notes\": []}"
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"", "object"},
        {"[]", "object"},
        {"{}", "missing"},
        {"{\"tern\": \"checkpoint 9\"}", "version"},
        {HEAD "], \"parts\": []}", "missing"},
        {HEAD TABLE "], \"parts\": [" TAIL, "rows"},
        {HEAD TABLE "," TABLE "], \"parts\": [" TAIL, "same name"},
        {HEAD TABLE "], \"parts\": [" PART("../part-0-0", "9") TAIL, "name"},
        {HEAD TABLE "], \"parts\": [" PART("part-0-00.safetensors", "9") TAIL, "name"},
        {HEAD TABLE "], \"parts\": [" PART("part-1-0.safetensors", "9") TAIL, "impossible"},
        {HEAD TABLE "], \"parts\": [" PART("part-0-0.safetensors", "9223372036854775808") TAIL,
         "impossible"},
        {HEAD TABLE "], \"parts\": [" PART("part-0-0.safetensors",
                                           "9") "," PART("part-0-0.safetensors", "9") TAIL,
         "twice"},
        {HEAD TABLE "], \"parts\": [" PART("part-0-0.safetensors",
                                           "9") "," PART("part-0-1.safetensors", "9") TAIL,
         "rows"},
        {HEAD TABLE "], \"parts\": [" LAYER("0", "0") TAIL, "layer"},
        {HEAD TABLE "], \"parts\": [" LAYER("0", "4294967296") TAIL, "layer"},
        {HEAD TABLE "], \"parts\": [" PART("part-0-0.safetensors", "9") TAIL "x", "follows"},
    };
    (void)state;
    assert_null(decode(HEAD TABLE "], \"parts\": [" PART("part-0-0.safetensors", "9") TAIL));
    manifest_free(&manifest);
    /* A row may be in several layers. */
    assert_null(
        decode(HEAD TABLE "], \"parts\": [" LAYER("0", "1") "," LAYER("3", "4294967295") TAIL));
    assert_int_equal(manifest.parts[1].layer, UINT32_MAX);
    manifest_free(&manifest);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *wrong = decode(cases[i].text);
        if (!wrong || !strstr(wrong, cases[i].word))
            print_error("%s\n  is '%s', not '%s'\n", cases[i].text, wrong ? wrong : "accepted",
                        cases[i].word);
        assert_true(wrong && strstr(wrong, cases[i].word));
        assert_null(manifest.parts);
    }
}

static void headers_are_read_as_written(void **state)
{
    struct buffer text = {0};
    struct part made = {0};
    (void)state;
    assert_int_equal(part_add(&made, "keys", PART_U64, 3, 0), 0);
    assert_int_equal(part_add(&made, "values", PART_F32, 3, 5), 24);
    assert_int_equal(part_data_bytes(&made), 84);
    assert_true(part_encode(&made, &text));
    const char *header = (char *)buffer_head(&text) + 8;
    const size_t n = buffer_size(&text) - 8;
    assert_null(part_decode(header, n, 84, &part));
    assert_int_equal(part.n, 2);
    assert_int_equal(part_find(&part, "values")->n_columns, 5);
    assert_null(part_find(&part, "state"));
    assert_non_null(part_decode(header, n, 83, &part));
    assert_non_null(part_decode(header, n, 85, &part));
    assert_non_null(part_decode(header, n - 12, 84, &part));
    buffer_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(skipping_passes_over_any_value),
        cmocka_unit_test(numbers_are_whole_and_have_a_limit),
        cmocka_unit_test(nodes_manifests_are_merged_and_read_again),
        cmocka_unit_test(bad_manifests_are_named),
        cmocka_unit_test(headers_are_read_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
