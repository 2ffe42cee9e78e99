/*
 * location - where the main copy of a key is, as far as a node knows, in 32 bits.
 *
 *   bits  0..15  number  of its last move: 1 to 65,535, and then 1 again; 0: it has not moved
 *   bits 16..31  node
 *
 * Of two statements about one key the one with the higher number is the newer. Number 0 is older than any other: it is
 * also what is supposed of a key that nobody has spoken of, that it is at home. Numbers wrap around: a statement
 * that is 2^15 moves old would be taken for new. Whoever follows it is told better, by a number that counts as
 * far older; then the key's home is asked, which hears of every move (store_learn_from).
 */
#ifndef STORE_LOCATION_H
#define STORE_LOCATION_H

#include <stdbool.h>
#include <stdint.h>

#define NOBODY UINT32_MAX

enum {
    LOCATION_FAR = 1024
}; /* by so many moves nobody is behind, unless numbers have wrapped around */

static inline uint32_t location_make(uint32_t node, uint32_t number)
{
    return node << 16 | (number & 0xffff);
}

static inline uint32_t location_node(uint32_t location)
{
    return location >> 16;
}

static inline uint32_t location_number(uint32_t location)
{
    return location & 0xffff;
}

static inline bool location_is_far_older(uint32_t location, uint32_t than)
{
    return (int16_t)(uint16_t)(than - location) > LOCATION_FAR;
}

static inline bool location_is_newer(uint32_t location, uint32_t than)
{
    if (!location_number(location) || !location_number(than))
        return location_number(location);
    return (int16_t)(uint16_t)(location - than) > 0;
}

/* The better of two statements, of which one was just told by the owner: it is believed also if numbers have wrapped
 * around. */
static inline uint32_t location_newest(uint32_t told, uint32_t known)
{
    return location_is_newer(known, told) && !location_is_far_older(told, known) ? known : told;
}

/* The number of the move after the one with this number. */
static inline uint32_t location_next(uint32_t number)
{
    uint32_t next = (number + 1) & 0xffff;
    return next ? next : 1;
}

#endif
