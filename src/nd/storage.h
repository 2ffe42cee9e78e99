/*
 * storage - the memory of an array, with the engine's variable that guards it.
 *
 * Arrays, their views, graphs and operations under way share a storage by counting references; the last one frees it.
 * Memory that belongs to the program is given back to it instead. Any thread.
 */
#ifndef ND_STORAGE_H
#define ND_STORAGE_H

#include <stdatomic.h>
#include <stddef.h>

#include "nd/engine.h"

struct storage {
    atomic_uint refs;
    atomic_bool is_exposed; /* the program has a pointer to it, or it is the program's own */
    void *data;
    size_t bytes; /* of the library's memory */
    struct variable variable;
    void (*release)(
        void *context); /* gives memory of the program back; NULL: it is the library's */
    void *context;
};

/* Memory for free(), aligned to 64 bytes, which must divide `bytes`; much of it is in huge pages where the system has them. */
void *storage_memory(size_t bytes);

/* Memory of so many bytes, aligned to 64; its content is undefined. */
enum tern_status storage_new(size_t bytes, struct storage **storage);

/* Memory of the program. `release` may be NULL. */
enum tern_status storage_wrap(void *data, void (*release)(void *context), void *context,
                              struct storage **storage);

struct storage *storage_keep(struct storage *storage);
void storage_drop(struct storage *storage);

#endif
