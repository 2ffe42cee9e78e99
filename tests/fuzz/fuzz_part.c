/*
 * The header of a part that is read has tensors that fill the data behind it without overlap, each as large as its shape
 * says; it is written again as a header that is read as the same.
 */
#include "fuzz/fuzz.h"

#include <string.h>

#include "wire/bytes.h"
#include "wire/part.h"

/* The input is a whole file: its length, its header and its data. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct part part, again;
    if (size < 8 || get_u64(data) > size - 8)
        return 0;
    const size_t header = (size_t)get_u64(data);
    const uint64_t data_bytes = size - 8 - header;
    if (part_decode((const char *)data + 8, header, data_bytes, &part))
        return 0;
    require(part.n <= TERN_MAX_NOTES);
    uint64_t end = 0;
    for (size_t i = 0; i < part.n; i++) {
        require(part.tensors[i].begin == end);
        end += part.tensors[i].bytes;
        require(end <= data_bytes);
        require(part_find(&part, part.tensors[i].name) == &part.tensors[i]);
    }
    require(end == data_bytes && part_data_bytes(&part) == end);
    struct buffer text = {0};
    require(part_encode(&part, &text));
    require(buffer_size(&text) % 8 == 0);
    require(!part_decode((const char *)buffer_head(&text) + 8, buffer_size(&text) - 8, data_bytes,
                         &again));
    require(again.n == part.n);
    for (size_t i = 0; i < part.n; i++)
        require(again.tensors[i].begin == part.tensors[i].begin &&
                again.tensors[i].n_rows == part.tensors[i].n_rows &&
                !strcmp(again.tensors[i].name, part.tensors[i].name));
    buffer_free(&text);
    return 0;
}
