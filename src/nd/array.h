/* array - the handle of an array, for the other files of nd/. */
#ifndef ND_ARRAY_H
#define ND_ARRAY_H

#include "base/handle.h"
#include "nd/elementwise.h"
#include "nd/node.h"

struct tern_array {
    struct handle handle;
    struct node *node;
    struct tern_array *next, *before; /* of the pending ones */
};

/* An array of a storage without gaps; keeps the storage. */
enum tern_status array_of(const struct spec *spec, struct storage *storage,
                          struct tern_array **array);

/* Carries out what is pending, without waiting, so that the array has a storage. */
enum tern_status array_flush(struct tern_array *array);

/* Likewise; also what reads it, if an operation is about to write it. Where its elements are; keeps the storage. */
enum tern_status array_operand(struct tern_array *array, bool writes, struct operand *operand,
                               struct storage **storage);

#endif
