/* quoted - strings of JSON. See quoted.h. */
#include "common/quoted.h"

#include <stddef.h>
#include <stdio.h>

/* The bytes of the character of UTF-8 that begins here; 0: none does. The second byte tells what is longer than it
 * need be (from e0, f0), a surrogate (ed) or beyond the last character (f4). */
static size_t character_bytes(const unsigned char *text)
{
    unsigned char first = text[0];
    size_t n = first < 0x80                    ? 1
               : first >= 0xc2 && first < 0xe0 ? 2
               : first >= 0xe0 && first < 0xf0 ? 3
               : first >= 0xf0 && first < 0xf5 ? 4
                                               : 0;
    unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    for (size_t i = 1; i < n; i++, low = 0x80, high = 0xbf)
        if (text[i] < low || text[i] > high)
            return 0;
    return n;
}

void write_quoted(FILE *file, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    putc('"', file);
    while (*at != '\0') {
        size_t n = character_bytes(at);
        if (n == 0)
            fprintf(file, "\\ufffd");
        else if (*at < 0x20)
            fprintf(file, "\\u%04x", *at);
        else
            fprintf(file, "%s%.*s", *at == '"' || *at == '\\' ? "\\" : "", (int)n,
                    (const char *)at);
        at += n > 0 ? n : 1;
    }
    putc('"', file);
}

void print_quoted(const char *text)
{
    write_quoted(stdout, text);
}
