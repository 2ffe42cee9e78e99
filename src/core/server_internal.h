/*
 * server_internal - what server.c, which decides about requests, server_rows.c, which reads and writes their rows, and
 * server_counted.c, which does so where rows count their updates, know of each other. Others include server.h.
 */
#ifndef CORE_SERVER_INTERNAL_H
#define CORE_SERVER_INTERNAL_H

#include "core/counting.h"
#include "core/server.h"
#include "core/technique.h"

/* Answers an ERROR, from the sentence of the failure just met. */
enum served server_fail(const struct server *server, const struct frame *request,
                        enum tern_status status, struct buffer *out);

/* Whether a process that shared the table's memory was lost. Those of this host notice by themselves. */
enum tern_status server_check_member(const struct core_table *table);

/* Decodes the keys of a request into server->keys, and checks them: where none moves, all of them must be at home here.
 * BUSY: it names a list that is not known. */
enum tern_status server_read_keys(struct server *server, struct server_lane *lane,
                                  const struct core_table *table, const struct frame *request,
                                  const uint8_t *body);

/* Answers a PULL; its keys are in server->keys. */
enum served server_pull(struct server *server, struct core_table *table,
                        const struct frame *request, struct buffer *out);

/* Executes a PUSH, SET or COUNT; its keys are in server->keys. */
enum tern_status server_write(struct server *server, struct core_table *table,
                              const struct frame *request, const uint8_t *body);

/* The payload where its elements are aligned; NULL when memory runs out. */
const void *server_align(struct server *server, const uint8_t *payload, size_t bytes);

/* Codes rows in their place, at `values`; *bytes is what they take and then took. False when memory runs out. */
bool server_filter_rows(struct server *server, const struct core_table *table,
                        const struct frame *request, char *values, size_t *bytes);

/* A PULL with counts; its keys are in server->keys. */
enum served server_pull_counted(struct server *server, struct core_table *table,
                                const struct frame *request, const uint8_t *body,
                                struct buffer *out);

/* Writes to rows that count their updates; server->packed then has the numbers that are answered. */
enum tern_status server_write_counted(struct server *server, struct core_table *table,
                                      const struct frame *request, const void *values);

/* The answer to a write that asks for counts: in server->packed, unless it was executed before. */
bool server_answer_counts(struct server *server, const struct core_table *table,
                          const struct frame *request, bool again, struct buffer *out);

#endif
