/*
 * wordnet.h - the definitions of the dictionary WordNet as examples to learn from.
 *
 * WordNet gives every meaning a definition and files it under one of 45 kinds: noun.animal,
 * verb.motion and so on. A definition is turned into features: its words and its pairs of
 * neighbouring words, each hashed to a 64-bit key. Usage examples in quotes are left out.
 *
 * One definition in ten is kept aside for testing. The choice depends on its text alone, so the
 * same sentence is never on both sides.
 *
 * It is a header so that each example stays one file to compile.
 */
#ifndef EXAMPLES_WORDNET_H
#define EXAMPLES_WORDNET_H

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_KINDS 45
#define MAX_FEATURES 512 /* of one definition; what is longer is cut */

/* In the order of WordNet's lexicographer files. */
static const char *const kind_names[N_KINDS] = {
    "adj.all",          "adj.pert",           "adv.all",
    "noun.Tops",        "noun.act",           "noun.animal",
    "noun.artifact",    "noun.attribute",     "noun.body",
    "noun.cognition",   "noun.communication", "noun.event",
    "noun.feeling",     "noun.food",          "noun.group",
    "noun.location",    "noun.motive",        "noun.object",
    "noun.person",      "noun.phenomenon",    "noun.plant",
    "noun.possession",  "noun.process",       "noun.quantity",
    "noun.relation",    "noun.shape",         "noun.state",
    "noun.substance",   "noun.time",          "verb.body",
    "verb.change",      "verb.cognition",     "verb.communication",
    "verb.competition", "verb.consumption",   "verb.contact",
    "verb.creation",    "verb.emotion",       "verb.motion",
    "verb.perception",  "verb.possession",    "verb.social",
    "verb.stative",     "verb.weather",       "adj.ppl",
};

struct definition {
    char *word; /* the first word with this meaning */
    char *text; /* as printed in the dictionary */
    int kind;
    uint64_t *features;
    size_t n_features;
};

struct definitions {
    size_t n;
    size_t capacity;
    struct definition *at;
};

/* Training and test definitions, each in a random order that is always the same. */
struct corpus {
    struct definitions train;
    struct definitions test;
};

/* FNV-1a, then mixed so that all bits count. */
static uint64_t hash_text(const char *text, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    hash = (hash ^ (hash >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return hash ^ (hash >> 32);
}

/* Writes the words of `text` in lower case with single spaces between; "^" marks the beginning. */
static void normalise(const char *text, char *words, size_t size)
{
    size_t n = 0;
    words[n++] = '^';
    for (bool inside = false; *text != '\0' && n + 3 < size; text++) {
        bool letter = isalnum((unsigned char)*text) != 0;
        if (letter && !inside)
            words[n++] = ' ';
        if (letter)
            words[n++] = (char)tolower((unsigned char)*text);
        inside = letter;
    }
    words[n] = '\0';
}

/* What features_of() hands over: a key and the words it stands for. */
typedef void feature_function(void *context, uint64_t key, const char *words, size_t length);

static void features_of(const char *text, feature_function *take, void *context)
{
    char words[4096];
    normalise(text, words, sizeof words);
    const char *last = NULL;
    for (const char *word = words; *word != '\0';) {
        size_t length = strcspn(word, " ");
        if (last != NULL) {
            take(context, hash_text(word, length), word, length);
            size_t pair = (size_t)(word - last) + length;
            take(context, hash_text(last, pair), last, pair);
        }
        last = word;
        word += length + (word[length] == ' ');
    }
}

struct feature_buffer {
    size_t n;
    uint64_t keys[MAX_FEATURES];
};

/* Each feature counts once per definition. */
static void collect_feature(void *context, uint64_t key, const char *words, size_t length)
{
    struct feature_buffer *buffer = context;
    (void)words, (void)length;
    for (size_t i = 0; i < buffer->n; i++)
        if (buffer->keys[i] == key)
            return;
    if (buffer->n < MAX_FEATURES)
        buffer->keys[buffer->n++] = key;
}

/* Fills in the features of a definition from its text; false when there is no memory. */
static bool definition_features(struct definition *definition)
{
    struct feature_buffer buffer = {0};
    features_of(definition->text, collect_feature, &buffer);
    definition->n_features = buffer.n;
    definition->features = malloc((buffer.n + 1) * sizeof *definition->features);
    if (definition->features != NULL)
        memcpy(definition->features, buffer.keys, buffer.n * sizeof *buffer.keys);
    return definition->features != NULL;
}

/* A line of a data file: offset, kind, part of speech, number of words, first word, ..., " | ", the
 * definition, and usage examples in quotes. False when the line is no entry. */
static bool parse_line(char *line, struct definition *definition)
{
    char word[256];
    int kind;
    char *text = strstr(line, " | ");
    if (sscanf(line, "%*8d %2d %*c %*x %255s", &kind, word) != 2 || text == NULL)
        return false;
    if (kind < 0 || kind >= N_KINDS)
        return false;
    text += 3;
    char *quote = strstr(text, "; \"");
    size_t length = quote != NULL ? (size_t)(quote - text) : strcspn(text, "\n");
    while (length > 0 && text[length - 1] == ' ')
        length--;
    for (char *c = word; *c != '\0'; c++)
        *c = *c == '_' ? ' ' : *c;
    *definition =
        (struct definition){.kind = kind, .word = strdup(word), .text = strndup(text, length)};
    return true;
}

static void definition_free(struct definition *definition)
{
    free(definition->word);
    free(definition->text);
    free(definition->features);
}

static bool definitions_add(struct definitions *list, struct definition *definition)
{
    if (list->n == list->capacity) {
        size_t capacity = list->capacity == 0 ? 1024 : 2 * list->capacity;
        struct definition *at = realloc(list->at, capacity * sizeof *at);
        if (at == NULL)
            return false;
        list->at = at;
        list->capacity = capacity;
    }
    list->at[list->n++] = *definition;
    return true;
}

static bool corpus_add(struct corpus *corpus, char *line)
{
    struct definition definition;
    if (!parse_line(line, &definition))
        return true;
    bool ok =
        definition.word != NULL && definition.text != NULL && definition_features(&definition);
    if (ok) {
        bool for_test = hash_text(definition.text, strlen(definition.text)) % 10 == 0;
        ok = definitions_add(for_test ? &corpus->test : &corpus->train, &definition);
    }
    if (!ok)
        definition_free(&definition);
    return ok;
}

static bool corpus_read_file(struct corpus *corpus, const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fprintf(stderr,
                "logistic: cannot read %s. On Debian the package wordnet-base installs it:\n"
                "    apt-get install wordnet-base\n"
                "Elsewhere, give the folder of WordNet's dictionary files with --data.\n",
                path);
        return false;
    }
    char *line = NULL;
    size_t size = 0;
    bool ok = true;
    while (ok && getline(&line, &size, file) > 0)
        if (isdigit((unsigned char)line[0]))
            ok = corpus_add(corpus, line);
    if (!ok)
        fprintf(stderr, "logistic: no memory for the definitions\n");
    free(line);
    fclose(file);
    return ok;
}

static void shuffle(struct definitions *list)
{
    uint64_t random = 1;
    for (size_t i = list->n; i > 1; i--) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        size_t j = (size_t)(random >> 33) % i;
        struct definition other = list->at[j];
        list->at[j] = list->at[i - 1];
        list->at[i - 1] = other;
    }
}

static void corpus_free(struct corpus *corpus)
{
    for (size_t i = 0; i < corpus->train.n; i++)
        definition_free(&corpus->train.at[i]);
    for (size_t i = 0; i < corpus->test.n; i++)
        definition_free(&corpus->test.at[i]);
    free(corpus->train.at);
    free(corpus->test.at);
    *corpus = (struct corpus){0};
}

/* Reads the four data files in `folder`; false after saying why not. */
static bool corpus_read(struct corpus *corpus, const char *folder)
{
    static const char *const files[] = {"data.noun", "data.verb", "data.adj", "data.adv"};
    char path[4096];
    *corpus = (struct corpus){0};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        if (!corpus_read_file(corpus, path)) {
            corpus_free(corpus);
            return false;
        }
    }
    if (corpus->train.n == 0 || corpus->test.n == 0) {
        fprintf(stderr, "logistic: there are no definitions in %s/data.*\n", folder);
        corpus_free(corpus);
        return false;
    }
    shuffle(&corpus->train);
    shuffle(&corpus->test);
    return true;
}

#endif
