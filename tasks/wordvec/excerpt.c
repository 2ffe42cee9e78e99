/* excerpt - some sentences as one step learns from them. See excerpt.h. */
#include "wordvec/excerpt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/sentence.h"

/* ---- Excerpts -------------------------------------------------------------------------------- */

size_t excerpt_max_pool(size_t n_negatives)
{
    return EXCERPT_TOKENS_MAX * n_negatives / EXCERPT_USES + n_negatives;
}

size_t excerpt_max_keys(size_t n_negatives)
{
    return 2 * EXCERPT_TOKENS_MAX + excerpt_max_pool(n_negatives);
}

bool excerpt_init(struct excerpt *excerpt, size_t n_negatives)
{
    *excerpt = (struct excerpt){
        .tokens = malloc(EXCERPT_TOKENS_MAX * sizeof *excerpt->tokens),
        .negatives = malloc((EXCERPT_TOKENS_MAX * n_negatives + 1) * sizeof *excerpt->negatives),
        .keys = malloc(excerpt_max_keys(n_negatives) * sizeof *excerpt->keys),
    };
    if (excerpt->tokens != NULL && excerpt->negatives != NULL && excerpt->keys != NULL)
        return true;
    excerpt_fini(excerpt);
    return task_fail_memory("an excerpt of the text");
}

void excerpt_fini(struct excerpt *excerpt)
{
    free(excerpt->tokens);
    free(excerpt->negatives);
    free(excerpt->keys);
    *excerpt = (struct excerpt){0};
}

/* ---- Positions of words ---------------------------------------------------------------------- */

static void forget_positions(struct excerpts *excerpts)
{
    if (++excerpts->stamp == 0) {
        memset(excerpts->slots, 0, excerpts->n_slots * sizeof *excerpts->slots);
        excerpts->stamp = 1;
    }
}

/* The position of a word; `next`, if it has none yet. */
static uint32_t position_of(struct excerpts *excerpts, uint32_t word, uint32_t next)
{
    size_t mask = excerpts->n_slots - 1, at = (word * UINT32_C(0x9e3779b9) >> 7) & mask;
    struct word_slot *slot = &excerpts->slots[at];
    for (; slot->stamp == excerpts->stamp; slot = &excerpts->slots[at = (at + 1) & mask])
        if (slot->word == word)
            return slot->position;
    *slot = (struct word_slot){word, excerpts->stamp, next};
    return next;
}

/* ---- Places ---------------------------------------------------------------------------------- */

/* The words of an excerpt stand in its `keys` as they are until all are read. */
static void add_token(struct excerpts *excerpts, struct excerpt *excerpt, uint32_t word)
{
    uint32_t position = position_of(excerpts, word, (uint32_t)excerpt->n_words);
    if (position == excerpt->n_words)
        excerpt->keys[excerpt->n_words++] = word;
    excerpt->tokens[excerpt->n_tokens++] = (struct token){.word = position};
}

/* Says which words are around each token of the sentence that begins at `begin`. */
static void close_sentence(struct excerpts *excerpts, struct excerpt *excerpt, size_t begin)
{
    for (size_t i = begin; i < excerpt->n_tokens; i++) {
        size_t reach = 1 + rng_below(&excerpts->rng, excerpts->window);
        size_t before = i - begin, after = excerpt->n_tokens - 1 - i;
        excerpt->tokens[i].before = (uint16_t)(before < reach ? before : reach);
        excerpt->tokens[i].after = (uint16_t)(after < reach ? after : reach);
    }
}

/* What comes next in the worker's share of the text; a word's number, or NAMES_NONE. */
static enum text_part next_part(struct excerpts *excerpts, uint32_t *word)
{
    const struct transcript *transcript = excerpts->transcript;
    const char *text;
    size_t length;
    if (transcript == NULL) {
        enum text_part part = text_next(&excerpts->reader, &text, &length);
        if (part == TEXT_WORD)
            *word = names_find(&excerpts->vocab->names, text, length);
        return part;
    }
    if (excerpts->at == transcript->n) {
        excerpts->at = 0;
        return TEXT_END;
    }
    *word = transcript->numbers[excerpts->at++];
    return *word == VOCAB_SENTENCE_END ? TEXT_SENTENCE_END : TEXT_WORD;
}

/* Takes a word of the text, if it is known and not left out. */
static void read_word(struct excerpts *excerpts, struct excerpt *excerpt, uint32_t word)
{
    excerpt->n_read++;
    if (word != NAMES_NONE && vocab_keeps(excerpts->vocab, word, &excerpts->rng))
        add_token(excerpts, excerpt, word);
}

/* Reads one sentence; *part is what it ended with. TEXT_WORD means that it was cut. */
static bool read_sentence(struct excerpts *excerpts, struct excerpt *excerpt, enum text_part *part)
{
    size_t begin = excerpt->n_tokens;
    uint32_t word;
    while ((*part = next_part(excerpts, &word)) == TEXT_WORD) {
        read_word(excerpts, excerpt, word);
        if (excerpt->n_tokens == begin + EXCERPT_SENTENCE_MAX)
            break;
    }
    close_sentence(excerpts, excerpt, begin);
    return *part != TEXT_FAILED;
}

static bool read_sentences(struct excerpts *excerpts, struct excerpt *excerpt)
{
    enum text_part part = TEXT_WORD;
    while (part != TEXT_END && excerpt->n_tokens < EXCERPT_TOKENS)
        if (!read_sentence(excerpts, excerpt, &part))
            return false;
    excerpt->ends_epoch = part == TEXT_END;
    return true;
}

/* ---- Negatives ------------------------------------------------------------------------------- */

void excerpts_draw(const struct excerpts *excerpts, struct excerpt *excerpt, uint64_t *pool)
{
    for (size_t i = 0; i < excerpt->n_pool; i++)
        pool[i] = predicted_key(vocab_draw(excerpts->vocab, &excerpt->rng));
}

/* Finds the words of the pool among those of the excerpt; the others follow these in `keys`. */
static void place_pool(struct excerpts *excerpts, struct excerpt *excerpt, const uint64_t *pool)
{
    uint64_t *predicted = excerpt->keys + excerpt->n_words;
    uint32_t n = (uint32_t)excerpt->n_words;
    forget_positions(excerpts);
    for (uint32_t i = 0; i < n; i++)
        position_of(excerpts, word_of(excerpt->keys[i]), i);
    for (size_t i = 0; i < excerpt->n_pool; i++) {
        excerpts->pool[i] = position_of(excerpts, word_of(pool[i]), n);
        if (excerpts->pool[i] == n)
            predicted[n++] = pool[i];
    }
    excerpt->n_keys = excerpt->n_words + n;
}

static bool is_among(uint32_t one, const uint32_t *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (all[i] == one)
            return true;
    return false;
}

/* A negative that is the right word, or was picked already, does not count. */
static void pick_negatives(struct excerpts *excerpts, struct excerpt *excerpt)
{
    uint32_t *next = excerpt->negatives;
    for (size_t i = 0; i < excerpt->n_tokens; i++) {
        struct token *token = &excerpt->tokens[i];
        size_t n = 0;
        for (size_t k = 0; k < excerpts->n_negatives; k++) {
            uint32_t negative = excerpts->pool[rng_below(&excerpt->rng, excerpt->n_pool)];
            if (negative != token->word && !is_among(negative, next, n))
                next[n++] = negative;
        }
        token->n_negatives = (uint16_t)n;
        next += n;
    }
}

void excerpts_complete(struct excerpts *excerpts, struct excerpt *excerpt, const uint64_t *pool)
{
    place_pool(excerpts, excerpt, pool);
    pick_negatives(excerpts, excerpt);
}

/* Turns words into keys. */
static void set_keys(struct excerpt *excerpt)
{
    size_t n_words = excerpt->n_words;
    for (size_t i = 0; i < n_words; i++) {
        uint32_t word = (uint32_t)excerpt->keys[i];
        excerpt->keys[i] = predicting_key(word);
        excerpt->keys[n_words + i] = predicted_key(word);
    }
    excerpt->n_keys = 2 * n_words;
}

/* ---- The stream ------------------------------------------------------------------------------ */

/* The random numbers of an epoch depend on its number alone, so that a run can go on with any epoch. */
static void begin_epoch(struct excerpts *excerpts)
{
    excerpts->rng = rng_seed(excerpts->seed + excerpts->epoch, excerpts->worker);
}

bool excerpts_init(struct excerpts *excerpts, const struct text *text, const struct vocab *vocab,
                   const struct excerpts_settings *settings)
{
    size_t n_slots = 1024, max_keys = excerpt_max_keys(settings->n_negatives);
    while (n_slots < 2 * max_keys)
        n_slots *= 2;
    memset(excerpts, 0, offsetof(struct excerpts, reader));
    excerpts->vocab = vocab;
    excerpts->window = settings->window;
    excerpts->n_negatives = settings->n_negatives;
    excerpts->n_own = vocab->n_words_of[settings->worker];
    excerpts->n_epochs = (double)settings->n_epochs;
    excerpts->epoch = (uint64_t)settings->n_epochs_done;
    excerpts->seed = settings->seed;
    excerpts->worker = settings->worker;
    begin_epoch(excerpts);
    excerpts->n_slots = n_slots;
    excerpts->slots = calloc(n_slots, sizeof *excerpts->slots);
    excerpts->pool = malloc(excerpt_max_pool(settings->n_negatives) * sizeof *excerpts->pool);
    excerpts->transcript = vocab_transcript(vocab, settings->worker);
    text_open(&excerpts->reader, text, settings->worker, settings->n_workers);
    return (excerpts->slots != NULL && excerpts->pool != NULL) ||
           task_fail_memory("a worker's part of the text");
}

void excerpts_fini(struct excerpts *excerpts)
{
    text_close(&excerpts->reader);
    free(excerpts->slots);
    free(excerpts->pool);
    excerpts->slots = NULL;
    excerpts->pool = NULL;
}

static float progress(const struct excerpts *excerpts)
{
    double share = excerpts->n_own > 0 ? (double)excerpts->n_read / (double)excerpts->n_own : 0;
    return (float)(((double)excerpts->epoch + share) / excerpts->n_epochs);
}

/* Somebody who empties or shortens the files would otherwise get vectors that nothing was learned for. */
static bool end_epoch(struct excerpts *excerpts)
{
    if (excerpts->n_read < excerpts->n_own)
        return task_fail("the text has changed since its words were counted: of %" PRIu64
                         " words that a worker had there are %" PRIu64
                         "; leave the files as they are until the training ends",
                         excerpts->n_own, excerpts->n_read);
    excerpts->n_read = 0;
    excerpts->epoch++;
    begin_epoch(excerpts);
    return true;
}

bool excerpts_next(struct excerpts *excerpts, struct excerpt *excerpt)
{
    excerpt->n_read = excerpt->n_tokens = excerpt->n_words = excerpt->n_keys = 0;
    excerpt->progress = progress(excerpts);
    forget_positions(excerpts);
    if (!read_sentences(excerpts, excerpt))
        return false;
    set_keys(excerpt);
    excerpt->n_pool =
        excerpt->n_tokens * excerpts->n_negatives / EXCERPT_USES + excerpts->n_negatives;
    excerpt->rng = rng_seed(rng_next(&excerpts->rng), 0);
    excerpts->n_read += excerpt->n_read;
    return !excerpt->ends_epoch || end_epoch(excerpts);
}
