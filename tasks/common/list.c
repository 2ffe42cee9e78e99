/* list - arrays that grow. See list.h. */
#include "common/list.h"

#include <stdint.h>
#include <stdlib.h>

#include "common/sentence.h"

enum { FIRST_CAPACITY = 64 };

void *list_grow(void *array, size_t element_bytes, size_t n, size_t *capacity, const char *what)
{
    if (n < *capacity)
        return array;
    size_t larger = *capacity > 0 ? 2 * *capacity : FIRST_CAPACITY;
    void *moved =
        larger <= SIZE_MAX / element_bytes ? realloc(array, larger * element_bytes) : NULL;
    if (moved == NULL)
        task_fail_memory(what);
    else
        *capacity = larger;
    return moved;
}
