/*
 * cutter - cuts whole frames out of the bytes of a simulated connection; node/connection.c does it for
 * real ones. Frames longer than any that the simulation sends count as nonsense.
 */
#ifndef SIM_CUTTER_H
#define SIM_CUTTER_H

#include "base/buffer.h"
#include "wire/frame.h"

struct cutter {
    struct buffer in;
    struct frame frame; /* the one found last */
};

enum cut { CUT_NOTHING, CUT_FRAME, CUT_NONSENSE };

/* Looks for a whole frame at the head; *body stays until bytes are added or dropped. */
enum cut cutter_next(struct cutter *cutter, const uint8_t **body);

/* Removes the frame that was found. */
void cutter_drop(struct cutter *cutter);

#endif
