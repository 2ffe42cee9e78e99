/*
 * similar - finds the names that somebody may have meant who typed another one.
 *
 * The distance of two names counts letters that are added, dropped or changed, and neighbours that are
 * swapped (optimal string alignment).
 */
#ifndef TASKS_SIMILAR_H
#define TASKS_SIMILAR_H

#include "common/names.h"

/* The distance of two strings; SIZE_MAX if one is too long to be a slip of the other. */
size_t similar_distance(const char *typed, const char *name);

/* How far a name may be from what was typed: one slip in three letters is still recognisable. */
size_t similar_limit(const char *typed);

/* The n names closest to `typed`, closest first, whatever their case; returns how many there are. */
size_t similar_names(const struct names *names, const char *typed, size_t n, uint32_t *numbers);

/* Fills in "; did you mean 'king', 'kind' or 'wing'?" without the question mark; "" if nothing is close. */
void similar_hint(const struct names *names, const char *typed, char *hint, size_t size);

#endif
