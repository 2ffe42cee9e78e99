/*
 * The header of a safetensors file that is accepted has tensors that lie within the data, each as large as its shape says;
 * it is written again as a header that is read as the same. The input is the JSON; the data has as many bytes.
 */
#include "fuzz/fuzz.h"

#include <string.h>

#include "nd/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct safetensor tensors[SAFETENSORS_MAX], again[SAFETENSORS_MAX];
    uint32_t n, m;
    struct buffer text = {0};
    if (format_safetensors((const char *)data, size, size, tensors, &n))
        return 0;
    for (uint32_t i = 0; i < n; i++)
        require(tensors[i].end <= size &&
                tensors[i].end - tensors[i].begin == spec_bytes(&tensors[i].spec));
    require(format_put_safetensors(tensors, n, &text) && buffer_size(&text) % 8 == 0);
    require(!format_safetensors((const char *)buffer_head(&text) + 8, buffer_size(&text) - 8, size,
                                again, &m));
    require(m == n);
    for (uint32_t i = 0; i < n; i++)
        require(!strcmp(again[i].name, tensors[i].name) &&
                spec_same_shape(&again[i].spec, &tensors[i].spec));
    buffer_free(&text);
    return 0;
}
