/* list - arrays that grow: the one way in which tasks append to an array. */
#ifndef TASKS_LIST_H
#define TASKS_LIST_H

#include <stddef.h>

/* Makes room for one more element behind n. Returns the array, perhaps moved and with a larger *capacity;
 * NULL after task_fail(), and then the old array stays valid. `what` is what there is no memory for. */
void *list_grow(void *array, size_t element_bytes, size_t n, size_t *capacity, const char *what);

#endif
