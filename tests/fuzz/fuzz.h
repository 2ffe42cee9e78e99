/*
 * fuzz - what fuzz targets share.
 *
 * A target is a file fuzz_NAME.c with the entry point of libFuzzer; `make fuzz` runs it on inputs made
 * up as it goes, `make test` on those of corpus/NAME (tests/unit/wire/test_corpus.c). An input that
 * broke something belongs into the corpus.
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process when a property does not hold, which is how a fuzzer learns of it. */
#define require(condition)                                                                 \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                       \
        }                                                                                  \
    } while (0)

#endif
