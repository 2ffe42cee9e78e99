/*
 * format - the formats that arrays are read from, as pure functions on bytes.
 *
 * Each takes any bytes: it fills its result or fails with a sentence that says what is wrong. What is accepted has a shape
 * that spec_check accepts, and elements that lie within the bytes.
 */
#ifndef ND_FORMAT_H
#define ND_FORMAT_H

#include "base/buffer.h"
#include "nd/spec.h"

/* Elements of a file: where they begin, and whether the bytes of each must be turned around. */
struct elements {
    struct spec spec;
    size_t offset;
    bool is_big_endian;
};

/* MNIST's format, and numpy's: little-endian and in C's order. */
enum tern_status format_idx(const uint8_t *bytes, size_t n, struct elements *elements);
enum tern_status format_npy(const uint8_t *bytes, size_t n, struct elements *elements);

/* CIFAR-10's binary files: records of a label, 0 to 9, and FORMAT_CIFAR_IMAGE bytes, an image of 3 x 32 x 32. Gives the number
 * of records. */
enum { FORMAT_CIFAR_IMAGE = 3 * 32 * 32 };
enum tern_status format_cifar(const uint8_t *bytes, size_t n, size_t *n_images);

/* Text: rows of numbers, separated by commas, semicolons, tabs or blanks; the first row may be a heading. Appends f32. */
enum tern_status format_csv(const char *text, size_t n, struct spec *spec, struct buffer *numbers);

/* "label index:value ..." per line, indices from 1. A row for each line, with as many columns as the largest index; at most
 * FORMAT_MAX_COLUMNS. Appends f32 numbers and labels. */
enum { FORMAT_MAX_COLUMNS = 1 << 20 };
enum tern_status format_libsvm(const char *text, size_t n, struct spec *spec,
                               struct buffer *numbers, struct buffer *labels);

/* The header of a safetensors file: the JSON behind its length. */
enum { SAFETENSORS_NAME = 64, SAFETENSORS_MAX = 4096 };
struct safetensor {
    char name[SAFETENSORS_NAME];
    struct spec spec;
    uint64_t begin, end; /* in the data */
};
/* `tensors` has room for SAFETENSORS_MAX. */
enum tern_status format_safetensors(const char *text, size_t n, uint64_t data_bytes,
                                    struct safetensor *tensors, uint32_t *n_tensors);
/* Appends the length and the JSON, padded to a multiple of 8. */
bool format_put_safetensors(const struct safetensor *tensors, uint32_t n, struct buffer *out);

#endif
