/* json - see json.h. */
#include "wire/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 32 };

bool json_refuse(struct json *json, const char *wrong)
{
    if (!json->wrong)
        json->wrong = wrong;
    return false;
}

/* The next character that is no blank; 0 at the end. */
static char peek(struct json *json)
{
    while (json->at < json->end && strchr(" \t\r\n", *json->at) && *json->at)
        json->at++;
    return json->at < json->end ? *json->at : 0;
}

static bool take(struct json *json, char c, const char *wrong)
{
    if (json->wrong || peek(json) != c)
        return json_refuse(json, wrong);
    json->at++;
    return true;
}

bool json_open(struct json *json, char bracket)
{
    return take(json, bracket, bracket == '{' ? "an object is expected" : "an array is expected");
}

bool json_next(struct json *json, char closing, size_t *n)
{
    if (json->wrong)
        return false;
    if (peek(json) == closing) {
        json->at++;
        return false;
    }
    return (*n)++ == 0 || take(json, ',', "a comma or a closing bracket is expected");
}

/* The four digits of \uXXXX. */
static bool take_hex(struct json *json, unsigned *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef";
        char c = json->at < json->end ? *json->at++ : 0;
        const char *digit = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
        if (!digit)
            return json_refuse(json, "\\u without four hexadecimal digits");
        *code = *code * 16 + (unsigned)(digit - digits);
    }
    return true;
}

/* What stands behind a backslash. */
static bool take_escape(struct json *json, char *c)
{
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    unsigned code;
    char name = json->at < json->end ? *json->at++ : 0;
    const char *found = name ? strchr(names, name) : NULL;
    if (found) {
        *c = meant[found - names];
        return true;
    }
    if (name != 'u')
        return json_refuse(json, "an unknown escape in a string");
    if (!take_hex(json, &code))
        return false;
    *c = (char)code;
    return (code && code < 0x80) || json_refuse(json, "\\u of a character that is not ASCII");
}

bool json_string(struct json *json, char *text, size_t size)
{
    if (!take(json, '"', "a string is expected"))
        return false;
    for (size_t n = 0; json->at < json->end;) {
        char c = *json->at++;
        if (c == '"') {
            text[n] = 0;
            return true;
        }
        if ((unsigned char)c < 0x20)
            return json_refuse(json, "a control character in a string");
        if (c == '\\' && !take_escape(json, &c))
            return false;
        if (n + 1 >= size)
            return json_refuse(json, "a string is too long");
        text[n++] = c;
    }
    return json_refuse(json, "a string has no end");
}

bool json_name(struct json *json, char *name, size_t size)
{
    return json_string(json, name, size) && take(json, ':', "a colon is expected");
}

bool json_number(struct json *json, uint64_t *number)
{
    uint64_t n = 0;
    if (json->wrong || peek(json) < '0' || *json->at > '9')
        return json_refuse(json, "a whole number is expected");
    const char *first = json->at;
    for (; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++)
        if (__builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*json->at - '0'), &n))
            return json_refuse(json, "a number is above 2^64 - 1");
    if (*first == '0' && json->at - first > 1)
        return json_refuse(json, "a number begins with 0");
    if (json->at < json->end && *json->at && strchr(".eE+-", *json->at))
        return json_refuse(json, "a number is not whole");
    *number = n;
    return true;
}

/* Passes over a string, however long. */
static bool skip_string(struct json *json)
{
    char unused;
    json->at++;
    while (json->at < json->end && *json->at != '"') {
        if ((unsigned char)*json->at < 0x20)
            return json_refuse(json, "a control character in a string");
        if (*json->at++ == '\\' && !take_escape(json, &unused))
            return false;
    }
    return take(json, '"', "a string has no end");
}

/* Passes over a number, true, false or null. */
static bool skip_word(struct json *json)
{
    const char *first = json->at;
    while (json->at < json->end && *json->at &&
           (strchr("+-.", *json->at) || (*json->at >= '0' && *json->at <= '9') ||
            (*json->at >= 'a' && *json->at <= 'z') || *json->at == 'E'))
        json->at++;
    return json->at > first || json_refuse(json, "a value is expected");
}

/* Passes over the name of a member. */
static bool skip_name(struct json *json)
{
    if (peek(json) != '"')
        return json_refuse(json, "a name is expected");
    return skip_string(json) && take(json, ':', "a colon is expected");
}

/* Goes from bracket to bracket, not by recursion: text may be nothing but brackets. */
bool json_skip(struct json *json)
{
    char closing[MAX_DEPTH];
    size_t n[MAX_DEPTH], depth = 0;
    do {
        const char c = json->wrong ? 0 : peek(json);
        if (c == '{' || c == '[') {
            if (depth == MAX_DEPTH)
                return json_refuse(json, "brackets are nested too deeply");
            json->at++;
            closing[depth] = c == '{' ? '}' : ']';
            n[depth++] = 0;
        } else if (json->wrong || !(c == '"' ? skip_string(json) : skip_word(json))) {
            return false;
        }
        while (depth && !json_next(json, closing[depth - 1], &n[depth - 1]) && !json->wrong)
            depth--;
        if (depth && !json->wrong && closing[depth - 1] == '}' && !skip_name(json))
            return false;
    } while (depth && !json->wrong);
    return !json->wrong;
}

bool json_end(struct json *json)
{
    return !json->wrong &&
           ((peek(json) == 0 && json->at == json->end) || json_refuse(json, "more text follows"));
}

bool json_put(struct buffer *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *room = n < 0 ? NULL : (char *)buffer_reserve(out, (size_t)n + 1);
    if (!room)
        return false;
    va_start(arguments, format);
    vsnprintf(room, (size_t)n + 1, format, arguments);
    va_end(arguments);
    out->end += (size_t)n;
    return true;
}

bool json_put_string(struct buffer *out, const char *text)
{
    bool ok = buffer_append(out, "\"", 1);
    for (; ok && *text; text++) {
        if (*text == '"' || *text == '\\')
            ok = json_put(out, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            ok = json_put(out, "\\u%04x", (unsigned)*text);
        else
            ok = buffer_append(out, text, 1);
    }
    return ok && buffer_append(out, "\"", 1);
}
