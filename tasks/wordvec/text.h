/*
 * text - the words of plain text, as one stream that several workers share.
 *
 * A word is a run of bytes above the blank; of a longer one than TEXT_WORD_MAX the first bytes count. A
 * line is a sentence. The text is a file, several files, or the files of a folder in the order of
 * their names, each plain or compressed (input.h).
 *
 * The text is cut into pieces of TEXT_PIECE bytes, and piece i belongs to worker i % n_workers. A word
 * belongs to the piece it begins in; a sentence ends where the next piece is another worker's. Every
 * worker reads all files and passes over what is not its own: that is how compressed files can be
 * shared, and costs little, since reading is a hundred times as fast as learning. With a placement, the lines are its rows, and a
 * line belongs to a worker of its row's node.
 */
#ifndef TASKS_WORDVEC_TEXT_H
#define TASKS_WORDVEC_TEXT_H

#include "common/input.h"
#include "common/placement.h"

enum { TEXT_WORD_MAX = 255, TEXT_PIECE = 1 << 16 };

struct text {
    size_t n;
    char **paths;
    size_t capacity;                   /* of paths */
    const struct placement *placement; /* or NULL; if not, */
    uint64_t n_threads;                /* the workers of a node */
};

/* `data` is a file, a folder, or several files separated by commas. */
bool text_init(struct text *text, const char *data);

/* Fails when a file is none that can be read more than once, such as a pipe, which would be empty the next
 * time. Whether files exist is seen when they are opened. */
bool text_can_be_reread(const struct text *text);

void text_fini(struct text *text);

enum text_part { TEXT_WORD, TEXT_SENTENCE_END, TEXT_END, TEXT_FAILED };

struct text_reader {
    const struct text *text;
    uint64_t worker, n_workers;
    size_t next_file;
    bool is_open; /* the input */
    struct input input;
    uint64_t n_pieces; /* read so far, of all files */
    uint64_t piece;    /* the number of the piece the last word began in */
    uint64_t line;     /* the number of the line at hand, of all files */
    bool in_line;      /* it has bytes */
    size_t at, end;    /* unread bytes of the buffer that are this worker's */
    bool inside;       /* the buffer ends inside a word that is not to be read */
    bool gap;          /* what comes next does not follow what came last */
    bool in_sentence;  /* words have come since the last end of a sentence */
    size_t n_word;
    char word[TEXT_WORD_MAX]; /* a word that goes from one piece into the next */
    char buffer[TEXT_PIECE];
};

/* Begins at the first word. text_close() is due in any case. */
void text_open(struct text_reader *reader, const struct text *text, uint64_t worker,
               uint64_t n_workers);
void text_close(struct text_reader *reader);

/* The worker, of n_workers, that the last word belongs to. */
uint64_t text_worker(const struct text_reader *reader, uint64_t n_workers);

/* What comes next. A word is valid until the next call. There are no empty sentences. After the end
 * the text begins again. */
enum text_part text_next(struct text_reader *reader, const char **word, size_t *length);

#endif
