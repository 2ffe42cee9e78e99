/*
 * checkpoint - a job's tables on disk: what the files of checkpoints share. tern.h has the promises.
 *
 *   checkpoint_write.c    start and wait: the steps that all nodes take together
 *   checkpoint_meet.c     which nodes these are
 *   checkpoint_cut.c      this node's rows, copied into images of files
 *   checkpoint_changes.c  which rows are as in the last checkpoint, so that its files serve again
 *   checkpoint_files.c    the folder: writing, syncing, renaming; reading and comparing hashes
 *   checkpoint_read.c     an open checkpoint: its tables, rows and notes
 *   checkpoint_layers.c   rows of a checkpoint whose parts replace rows of each other
 *   checkpoint_restore.c  rows back into a table
 *   checkpoint_sketch.c   sketches, which have no rows
 *   checkpoint_recover.c  rows that backups have lost, back into a table
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
 *
 * Nodes that were given up take no part: in a job whose tables have backups, others have their keys. The steps are about the nodes
 * of one view, on which all agree before step 1. If one of them is given up after that, its rows may be in two parts or in
 * none: a node that has another view in step 3 fails the cut for all, and the list of files that is missing in step 5 the wait.
 *
 * A checkpoint of changes (tern_checkpoint_start_changes) is complete by itself, too: before step 1 each node links its files of
 * the last one into the new folder, and in step 3 it copies only rows that are not in them as they are now. The new files are a
 * layer above the old ones.
 */
#ifndef NODE_CHECKPOINT_H
#define NODE_CHECKPOINT_H

#include "node/node.h"
#include "store/rows.h"
#include "wire/manifest.h"
#include "wire/part.h"

/* One file of a checkpoint, in memory until it is written. */
struct image {
    struct image *next;
    struct manifest_part part; /* its hash is set when it is written */
    size_t n_bytes;
    char bytes[];
};

/* The rows of this node in the last checkpoint of changes. */
struct written_table {
    char name[TERN_MAX_NAME + 1];
    size_t row_bytes; /* of a value and its state */
    struct rows_keys keys;
    uint64_t *hashes;   /* of each key's row */
    uint64_t n_rows;    /* of all its files, which may have a key more than once */
    uint64_t n_removed; /* rows that had left the table */
    bool is_layered;    /* earlier files of the table are part of the checkpoint */
};

struct written {
    char *path;
    uint32_t layer;     /* of its newest files */
    uint32_t n_numbers; /* numbers that files have had */
    size_t n_tables, n_parts;
    struct written_table tables[TERN_MAX_TABLES];
    struct manifest_part *parts; /* in the order of their numbers; `table` is a place in `tables` */
};

/* The nodes that take a checkpoint, or restore one, together. */
struct meeting {
    const struct view *view; /* that all of them have: they are the nodes in it */
    uint32_t n, rank; /* how many they are, and how many of them have lower numbers than this one */
};

/* A checkpoint that is being written. */
struct checkpointing {
    struct meeting meeting;
    char *path, *folder;      /* its name, and PATH.new */
    struct manifest manifest; /* of this node's part */
    struct image *images;
    struct written
        *written; /* what the next one of changes may go on from; NULL: this is none of changes */
    const struct written *before; /* whose files are linked into the folder; NULL: none are */
    pthread_t thread;
    bool has_thread;
    atomic_bool is_given_up;
    enum tern_status status; /* of the thread, and its sentence */
    char sentence[STATUS_SENTENCE_BYTES];
};

/* Whether a table is as the checkpoint lists it. */
enum tern_status checkpoint_check_shape(const struct tern_table *table,
                                        const struct manifest_table *listed);

/* A collective call: waits until all nodes that are left have the same view. */
enum tern_status meeting_begin(struct tern_node *node, struct meeting *meeting);
/* Fails if this node has another view now. */
enum tern_status meeting_check(const struct tern_node *node, const struct meeting *meeting);

/* Copies the node's rows, clocks and notes into images and lists them in the manifest. */
enum tern_status cut_take(struct tern_node *node, const struct tern_note *notes, size_t n_notes,
                          struct checkpointing *to);
void cut_free(struct checkpointing *cut);

/* An image with its header, behind the others; *data is where its tensors go. NULL when memory runs out. */
struct image *cut_add_image(struct checkpointing *cut, const struct part *layout,
                            const struct manifest_part *part, char **data);

/* A table that is a sketch (checkpoint_sketch.c): adds it to a cut; and replaces it by the one in a checkpoint, where it has this
 * place, which all nodes do together. */
enum tern_status sketch_cut(struct checkpointing *cut, struct tern_table *table,
                            struct manifest_part *part);
enum tern_status sketch_restore(struct tern_table *table, const struct tern_checkpoint *checkpoint,
                                size_t place, const struct meeting *meeting);

/* ---- What has changed (checkpoint_changes.c) ----------------------------------------------------- */

/* Makes `writing` one of changes, behind the last one of this node, if there is one whose files can be linked. */
enum tern_status changes_begin(const struct tern_node *node, struct checkpointing *writing);

/* Which rows of a store are to be copied: all of `keys`, or those that have changed. */
struct changed_rows {
    struct rows_keys keys;
    size_t *places;   /* of these keys among all; NULL: they are all */
    uint64_t *hashes; /* where those of all keys belong */
};

/* How many rows have left the store. */
uint64_t changes_n_removed(const struct store *store);

/* Puts a table, which is the last one of cut->manifest, on the list, and chooses. Its keys, which are taken over, were listed
 * after n_removed rows had left. */
enum tern_status changes_choose(struct checkpointing *cut, struct store *store,
                                const struct rows_keys *keys, uint64_t n_removed,
                                struct changed_rows *rows);
void changes_free(struct changed_rows *rows);

/* Keeps the hash of n rows that were copied, from number `first` of those chosen on. */
void changes_note(const struct changed_rows *rows, const struct store *store, size_t first,
                  size_t n, const char *values, const char *states);

/* When all tables are copied: lists the files of the last checkpoint that serve again, and unlinks the others. */
enum tern_status changes_keep_files(struct checkpointing *cut);

/* The checkpoint is complete: the next one of changes goes on from it. */
void changes_end(struct tern_node *node, struct checkpointing *writing);
void written_free(struct written *written);

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

/* Gives a file of one folder the same name in another one; false if that cannot be. And removes it there. */
bool files_link(const char *from, const char *to, const char *name);
void files_unlink(const char *folder, const char *name);

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

/* The hash of a row. */
uint64_t files_hash_row(const void *value, size_t n_value, const void *state, size_t n_state);

/* ---- An open checkpoint (checkpoint_read.c) ----------------------------------------------------- */

struct tern_checkpoint {
    struct handle handle;
    char *path;
    struct manifest *manifest;
    struct live_rows *
        live; /* of the table with layers that was read last (checkpoint_layers.c); NULL: none was */
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

/* ---- Layers (checkpoint_layers.c) --------------------------------------------------------------- */

/* The lowest layer of a table's parts that is at least `from`; UINT64_MAX if there is none. */
uint64_t layers_next(const struct manifest *manifest, size_t table, uint64_t from);

/* As tern_checkpoint_read, for a table that has layers: rows that others replace are left out. */
enum tern_status layers_read(struct tern_checkpoint *checkpoint, size_t table, uint64_t first,
                             size_t capacity, uint64_t *keys, void *values, void *states,
                             size_t *n);
void layers_free(struct live_rows *live);

#endif
