/*
 * location - where the main copy of a key is, as far as a node knows, in 32 bits.
 *
 *   bits  0..15  number  how often the key has moved, modulo 2^16
 *   bits 16..31  node
 *
 * Of two statements about one key the one with the higher number is the newer. Numbers wrap around: a statement
 * that is 2^15 moves old would be taken for new, as would what is supposed of a key that nobody has spoken of: that it
 * is at home and has never moved. Whoever follows either is told better, by a number that seems older; then the key's
 * home is asked, which hears of every move (store_learn_from).
 */
#ifndef STORE_LOCATION_H
#define STORE_LOCATION_H

#include <stdbool.h>
#include <stdint.h>

#define NOBODY UINT32_MAX

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

static inline bool location_is_newer(uint32_t location, uint32_t than)
{
    return (int16_t)(uint16_t)(location - than) > 0;
}

#endif
