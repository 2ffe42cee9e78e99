/*
 * checkpoint - a job's tables on disk: what the files of checkpoints share. tern.h has the promises.
 *
 *   checkpoint_write.c    start and wait: the steps that all nodes take together
 *   checkpoint_cut.c      this node's rows, copied into images of files
 *   checkpoint_files.c    the folder: writing, syncing, renaming; reading and comparing hashes
 *   checkpoint_read.c     an open checkpoint: its tables, rows and notes
 *   checkpoint_restore.c  rows back into a table
 *
 * The formats are in wire/part.h and wire/manifest.h.
 *
 * How the cut is taken:
 *
 *  1. tern_quiesce: what was written before is at the main copies.
 *  2. All nodes hold rows where they are (core/rounds.h, rule 6), and meet. Now each row has one main copy.
 *  3. Each node copies its main copies into memory, laid out as the files will be; and all meet.
 *  4. Rows are released and the call returns. A thread of each node writes its files, hashes and syncs them.
 *  5. The wait: each node tells what it has written; node 0 writes the manifest, syncs the folder and renames it.
 */
#ifndef NODE_CHECKPOINT_H
#define NODE_CHECKPOINT_H

#include "node/node.h"
#include "wire/manifest.h"
#include "wire/part.h"

/* One file of a checkpoint, in memory until it is written. */
struct image {
    struct image *next;
    struct manifest_part part; /* its hash is set when it is written */
    size_t n_bytes;
    char bytes[];
};

/* A checkpoint that is being written. */
struct checkpointing {
    char *path, *folder;      /* its name, and PATH.new */
    struct manifest manifest; /* of this node's part */
    struct image *images;
    pthread_t thread;
    bool has_thread;
    atomic_bool is_given_up;
    enum tern_status status; /* of the thread, and its sentence */
    char sentence[STATUS_SENTENCE_BYTES];
};

/* Copies the node's rows, clocks and notes into images and lists them in the manifest. */
enum tern_status cut_take(struct tern_node *node, const struct tern_note *notes, size_t n_notes,
                          struct checkpointing *to);
void cut_free(struct checkpointing *cut);

/* All nodes tell how they fare: the first failure, with the sentence of the node that had it, for all. */
enum tern_status checkpoint_agree(struct tern_node *node, enum tern_status status);

/* Ends a checkpoint that nobody waited for. */
void checkpoint_give_up(struct tern_node *node);

/* ---- The folder (checkpoint_files.c) ------------------------------------------------------------ */

/* Makes the folder PATH.new, empty; what an earlier one left there is removed. `path` must not exist. */
enum tern_status files_begin(const char *path, const char *folder);

/* Writes one file and syncs it. `is_given_up` ends it early. */
enum tern_status files_write(const char *folder, const char *name, const void *bytes, size_t n,
                             const atomic_bool *is_given_up);
enum tern_status files_sync_folder(const char *folder);

/* Looks whether all parts are there, in their full length. */
enum tern_status files_check_sizes(const char *folder, const struct manifest *manifest);

/* Does that; writes the manifest; gives the folder its name. */
enum tern_status files_commit(const char *path, const char *folder,
                              const struct manifest *manifest);

/* Removes the folder and what files of checkpoints are in it. */
void files_discard(const char *folder);

/* Reads a whole file of at most `most` bytes. *bytes is malloc'ed. */
enum tern_status files_read(const char *folder, const char *name, uint64_t most, char **bytes,
                            size_t *n);

/* The hash of a file or an image; a file is read from its beginning to its end. */
uint64_t files_hash(const void *bytes, size_t n);
enum tern_status files_check(const char *folder, const struct manifest_part *part);

/* ---- An open checkpoint (checkpoint_read.c) ----------------------------------------------------- */

struct tern_checkpoint {
    struct handle handle;
    char *path;
    struct manifest *manifest;
};

/* A part of a table that is open for reading. */
struct part_reader {
    int fd;
    char name[MANIFEST_FILE_BYTES];
    const struct manifest_part *listed;
    uint64_t keys_at, values_at, states_at; /* in the file */
    size_t value_bytes, state_bytes;        /* of a row */
};

/* Opens a part and checks that it has the tensors of its table. */
enum tern_status reader_open(const struct tern_checkpoint *checkpoint, size_t part,
                             struct part_reader *reader);
void reader_close(struct part_reader *reader);

/* Reads n rows from the one of number `first` on; keys, values or states may be NULL. */
enum tern_status reader_rows(const struct part_reader *reader, uint64_t first, size_t n,
                             uint64_t *keys, void *values, void *states);

#endif
