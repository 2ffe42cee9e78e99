/*
 * wordnet - a knowledge graph from the files of WordNet. See wordnet.h.
 *
 * An entity is a synset, one meaning that a set of words share. A line of data.noun and its like
 * describes one:
 *
 *   offset kind part-of-speech n-words (hexadecimal) {word id} n-pointers {symbol offset pos place} ...
 *
 * and a line of index.noun lists the synsets of a word, commonest first, which numbers its meanings:
 *
 *   word pos n-synsets n-symbols {symbol} n-synsets n-tagged {offset}
 *
 * The split works on pairs of entities: all triples about a pair are in the same part. A pair goes to
 * valid or test only if train keeps at least MIN_LEFT other pairs of either entity.
 */
#include "kge/wordnet.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/input.h"
#include "common/outputs.h"
#include "common/rng.h"
#include "common/sentence.h"
#include "kge/graph.h"

enum { MIN_LEFT = 3, MAX_WORDS = 8192 };

static const struct {
    const char *file;
    char pos;
} parts_of_speech[] = {{"noun", 'n'}, {"verb", 'v'}, {"adj", 'a'}, {"adv", 'r'}};

/* The symbols that are kept. Those that say the same backwards are left out: hyponyms (~ ~i), holonyms
 * (#m #s #p) and members of a domain (-c -r -u). */
static const struct {
    const char *symbol, *name;
} relation_names[] = {
    {"@", "hypernym"},      {"@i", "instance_hypernym"},
    {"%m", "has_member"},   {"%s", "has_substance"},
    {"%p", "has_part"},     {"=", "attribute"},
    {"!", "antonym"},       {"+", "derivationally_related"},
    {";c", "topic"},        {";r", "region"},
    {";u", "usage"},        {"*", "entails"},
    {">", "causes"},        {"^", "also_see"},
    {"$", "verb_group"},    {"&", "similar_to"},
    {"<", "participle_of"}, {"\\", "pertains_to"},
};

enum { N_RELATIONS = sizeof relation_names / sizeof *relation_names };

struct dictionary {
    struct names senses;   /* "n02084071 dog" */
    uint8_t *sense_number; /* of each, from 1; 255 for all beyond */
    size_t sense_capacity;
    struct names synsets;  /* "n02084071" */
    struct names entities; /* "dog.n.01", numbered as the synsets */
    struct triples triples;
};

/* ---- Lines ----------------------------------------------------------------------------------- */

/* A line of a file and its words. */
struct entry {
    struct input *input;
    char pos;
    char *words[MAX_WORDS];
    size_t n;
};

typedef bool entry_function(struct dictionary *dictionary, const struct entry *entry);

static bool malformed(const struct entry *entry)
{
    return input_fail(entry->input, "this is not a line of WordNet's files");
}

static void cut(char *line, struct entry *entry)
{
    entry->n = 0;
    line[strcspn(line, "|")] = '\0';
    for (char *word; (word = strsep(&line, " ")) != NULL && entry->n < MAX_WORDS;)
        if (word[0] != '\0')
            entry->words[entry->n++] = word;
}

/* Calls `each` for the entries of one file, which begins with lines that are indented. */
static bool read_file(struct dictionary *dictionary, const char *path, char pos,
                      entry_function *each)
{
    struct input input;
    struct entry entry = {.input = &input, .pos = pos};
    enum input_result result = INPUT_FAILED;
    char *line;
    size_t length;
    if (!input_open(&input, path))
        return task_fail("%s; on Debian the package wordnet-base has it", task_error());
    bool ok = true;
    while (ok && (result = input_line(&input, &line, &length)) == INPUT_LINE) {
        bool is_entry = length > 0 && line[0] != ' ';
        cut(line, &entry);
        ok = !is_entry || each(dictionary, &entry);
    }
    ok = ok && result == INPUT_END;
    input_close(&input);
    return ok;
}

static bool read_files(struct dictionary *dictionary, const char *from, const char *kind,
                       entry_function *each)
{
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof parts_of_speech / sizeof *parts_of_speech; i++) {
        char *path;
        if (asprintf(&path, "%s/%s.%s", from, kind, parts_of_speech[i].file) < 0)
            return task_fail_memory("the name of a file");
        ok = read_file(dictionary, path, parts_of_speech[i].pos, each);
        free(path);
    }
    return ok;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static bool keep_sense(struct dictionary *dictionary, uint32_t number, size_t sense)
{
    if (number >= dictionary->sense_capacity) {
        size_t capacity = 2 * (size_t)number + 1024;
        uint8_t *larger = realloc(dictionary->sense_number, capacity);
        if (larger == NULL)
            return task_fail_memory("the meanings");
        dictionary->sense_number = larger;
        dictionary->sense_capacity = capacity;
    }
    dictionary->sense_number[number] = sense < UINT8_MAX ? (uint8_t)sense : UINT8_MAX;
    return true;
}

/* An entry of an index: numbers the meanings of a word. */
static bool read_index_entry(struct dictionary *dictionary, const struct entry *entry)
{
    char key[512];
    size_t n_senses = entry->n > 3 ? strtoul(entry->words[2], NULL, 10) : 0;
    if (n_senses == 0 || n_senses > entry->n)
        return malformed(entry);
    for (size_t i = 0; i < n_senses; i++) {
        uint32_t number = 0;
        int length = snprintf(key, sizeof key, "%c%s %s", entry->pos,
                              entry->words[entry->n - n_senses + i], entry->words[0]);
        if (length < 0 || (size_t)length >= sizeof key)
            return malformed(entry);
        if (!names_add(&dictionary->senses, key, (size_t)length, &number) ||
            !keep_sense(dictionary, number, i + 1))
            return false;
    }
    return true;
}

/* Lower case, and without the marks of adjectives such as "(p)". */
static void simplify(char *word)
{
    word[strcspn(word, "(")] = '\0';
    for (; *word != '\0'; word++)
        *word = (char)tolower((unsigned char)*word);
}

/* An entry of a data file: names a synset after its first word. */
static bool read_synset(struct dictionary *dictionary, const struct entry *entry)
{
    char key[512], name[512];
    uint32_t place = 0, entity = 0;
    if (entry->n < 6)
        return malformed(entry);
    simplify(entry->words[4]);
    int length = snprintf(key, sizeof key, "%c%s %s", entry->pos, entry->words[0], entry->words[4]);
    if (length < 0 || (size_t)length >= sizeof key)
        return malformed(entry);
    uint32_t sense = names_find(&dictionary->senses, key, (size_t)length);
    if (sense == NAMES_NONE)
        return input_fail(entry->input, "'%s' is not in the index", entry->words[4]);
    length = snprintf(name, sizeof name, "%s.%c.%02d", entry->words[4], entry->pos,
                      dictionary->sense_number[sense]);
    if (length < 0 || (size_t)length >= sizeof name)
        return malformed(entry);
    if (!names_add(&dictionary->entities, name, (size_t)length, &entity) ||
        !names_add(&dictionary->synsets, key, strcspn(key, " "), &place))
        return false;
    return entity == place || input_fail(entry->input, "'%s' has this meaning twice", name);
}

/* ---- Triples ----------------------------------------------------------------------------------- */

static bool read_pointer(struct dictionary *dictionary, const struct entry *entry, uint32_t subject,
                         char *const words[3])
{
    uint32_t relation = 0;
    while (relation < N_RELATIONS && strcmp(words[0], relation_names[relation].symbol) != 0)
        relation++;
    if (relation == N_RELATIONS)
        return true;
    char key[64];
    char pos = words[2][0] == 's' ? 'a' : words[2][0];
    int length = snprintf(key, sizeof key, "%c%s", pos, words[1]);
    uint32_t object = length > 0 && (size_t)length < sizeof key
                          ? names_find(&dictionary->synsets, key, (size_t)length)
                          : NAMES_NONE;
    if (object == NAMES_NONE)
        return input_fail(entry->input, "there is no synset %s", words[1]);
    return object == subject ||
           triples_add(&dictionary->triples, (struct triple){subject, relation, object});
}

/* An entry of a data file: reads where its pointers lead. */
static bool read_pointers(struct dictionary *dictionary, const struct entry *entry)
{
    char key[64];
    size_t n_words = strtoul(entry->words[3], NULL, 16), at = 4 + 2 * n_words;
    int length = snprintf(key, sizeof key, "%c%s", entry->pos, entry->words[0]);
    if (at >= entry->n || length < 0 || (size_t)length >= sizeof key)
        return malformed(entry);
    uint32_t subject = names_find(&dictionary->synsets, key, (size_t)length);
    size_t n_pointers = strtoul(entry->words[at++], NULL, 10);
    if (n_pointers > (entry->n - at) / 4)
        return malformed(entry);
    for (size_t i = 0; i < n_pointers; i++)
        if (!read_pointer(dictionary, entry, subject, entry->words + at + 4 * i))
            return false;
    return true;
}

/* ---- The split ------------------------------------------------------------------------------- */

static uint64_t pair_of(const struct triple *triple)
{
    uint32_t low = triple->subject < triple->object ? triple->subject : triple->object;
    return (uint64_t)low << 32 | (triple->subject ^ triple->object ^ low);
}

static int compare_triples(const void *left, const void *right)
{
    const struct triple *a = left, *b = right;
    uint64_t pair_a = pair_of(a), pair_b = pair_of(b);
    if (pair_a != pair_b)
        return pair_a < pair_b ? -1 : 1;
    if (a->subject != b->subject)
        return a->subject < b->subject ? -1 : 1;
    return (a->relation > b->relation) - (a->relation < b->relation);
}

static void drop_repeated(struct triples *triples)
{
    size_t kept = 0;
    for (size_t i = 0; i < triples->n; i++)
        if (kept == 0 || compare_triples(&triples->at[i], &triples->at[kept - 1]) != 0)
            triples->at[kept++] = triples->at[i];
    triples->n = kept;
}

struct split {
    const struct triples *triples; /* sorted by pairs */
    size_t n_pairs;
    size_t *pairs;     /* where each pair begins, in random order */
    uint32_t *degrees; /* pairs of each entity in train */
    uint8_t *part;     /* of each triple: 0 train, 1 valid, 2 test */
};

static void split_fini(struct split *split)
{
    free(split->pairs);
    free(split->degrees);
    free(split->part);
}

static bool split_init(struct split *split, const struct triples *triples, size_t n_entities)
{
    *split = (struct split){.triples = triples,
                            .pairs = malloc((triples->n + 1) * sizeof *split->pairs),
                            .degrees = calloc(n_entities + 1, sizeof *split->degrees),
                            .part = calloc(triples->n + 1, 1)};
    if (split->pairs == NULL || split->degrees == NULL || split->part == NULL) {
        split_fini(split);
        return task_fail_memory("the triples");
    }
    for (size_t i = 0; i < triples->n; i++) {
        if (i > 0 && pair_of(&triples->at[i]) == pair_of(&triples->at[i - 1]))
            continue;
        split->pairs[split->n_pairs++] = i;
        split->degrees[triples->at[i].subject]++;
        split->degrees[triples->at[i].object]++;
    }
    return true;
}

static void shuffle(size_t *at, size_t n, uint64_t seed)
{
    struct rng rng = rng_seed(seed, 0);
    for (size_t i = n; i > 1; i--) {
        size_t j = rng_below(&rng, i), other = at[j];
        at[j] = at[i - 1];
        at[i - 1] = other;
    }
}

/* Puts the triples of the pair that begins at `first` into a part; how many there are. */
static size_t assign(struct split *split, size_t first, uint8_t part)
{
    const struct triples *triples = split->triples;
    size_t n = 0;
    for (;
         first + n < triples->n && pair_of(&triples->at[first + n]) == pair_of(&triples->at[first]);
         n++)
        split->part[first + n] = part;
    return n;
}

/* Fills valid, then test, with pairs that train can do without. */
static void choose_parts(struct split *split, size_t n_wanted)
{
    size_t n[3] = {0};
    uint8_t part = 1;
    for (size_t i = 0; i < split->n_pairs && part < 3; i++) {
        const struct triple *triple = &split->triples->at[split->pairs[i]];
        uint32_t *subject = &split->degrees[triple->subject],
                 *object = &split->degrees[triple->object];
        if (*subject <= MIN_LEFT || *object <= MIN_LEFT)
            continue;
        --*subject;
        --*object;
        n[part] += assign(split, split->pairs[i], part);
        if (n[part] >= n_wanted)
            part++;
    }
}

/* ---- Writing --------------------------------------------------------------------------------- */

static bool write_parts(const struct dictionary *dictionary, const struct split *split,
                        const char *folder)
{
    static const char *const files[3] = {"train.txt", "valid.txt", "test.txt"};
    struct outputs outputs;
    struct outfile *out[3];
    if (!outputs_open(&outputs, folder))
        return false;
    for (size_t i = 0; i < 3; i++) {
        out[i] = outputs_add(&outputs, files[i]);
        if (out[i] == NULL) {
            outputs_discard(&outputs);
            return false;
        }
    }
    for (size_t i = 0; i < dictionary->triples.n; i++) {
        struct triple triple = dictionary->triples.at[i];
        outfile_print(
            out[split->part[i]], "%s\t%s\t%s\n", names_at(&dictionary->entities, triple.subject),
            relation_names[triple.relation].name, names_at(&dictionary->entities, triple.object));
    }
    return outputs_commit(&outputs);
}

static bool split_and_write(struct dictionary *dictionary, const char *folder, uint64_t seed,
                            double share)
{
    struct split split;
    struct triples *triples = &dictionary->triples;
    qsort(triples->at, triples->n, sizeof *triples->at, compare_triples);
    drop_repeated(triples);
    if (!split_init(&split, triples, dictionary->entities.n))
        return false;
    shuffle(split.pairs, split.n_pairs, seed);
    choose_parts(&split, (size_t)((double)triples->n * share));
    bool ok = write_parts(dictionary, &split, folder);
    split_fini(&split);
    return ok;
}

bool wordnet_make(const char *from, const char *folder, uint64_t seed, double share)
{
    struct dictionary dictionary = {0};
    bool ok = read_files(&dictionary, from, "index", read_index_entry) &&
              read_files(&dictionary, from, "data", read_synset) &&
              read_files(&dictionary, from, "data", read_pointers);
    if (ok && dictionary.triples.n == 0)
        ok = task_fail("there are no triples in %s/data.*", from);
    ok = ok && split_and_write(&dictionary, folder, seed, share);
    names_fini(&dictionary.senses);
    names_fini(&dictionary.synsets);
    names_fini(&dictionary.entities);
    free(dictionary.sense_number);
    free(dictionary.triples.at);
    return ok;
}
