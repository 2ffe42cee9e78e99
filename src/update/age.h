/*
 * age - tells updaters how old an update is (tern_update_age). Whoever applies a push to a table whose updater asks sets
 * the age first, in the thread that applies it.
 */
#ifndef UPDATE_AGE_H
#define UPDATE_AGE_H

#include "tern/tern.h"

void update_set_age(struct tern_age age);

#endif
