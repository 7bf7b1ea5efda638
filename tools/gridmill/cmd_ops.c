/* SPDX-License-Identifier: Apache-2.0
 *
 * gridmill ops: the daemon's table of ops, for people or as JSON. One thread.
 */
#include "reply.h"
#include "table.h"

#include <stdio.h>
#include <string.h>

static void print_help(void)
{
    fputs("usage: gridmill ops [OP] [OPTION...]\n\n"
          "Lists the ops of the running daemon: name, shape, result, element types, and arguments, in brackets those\n"
          "that may be left out. With OP, also says what it does, what its buffers hold and its arguments mean.\n\n"
          "      --json          print JSON\n" COMMON_HELP,
          stdout);
}

enum { OPTION_JSON = OPTION_FIRST };
enum { COLUMN_NAME, COLUMN_SHAPE, COLUMN_RESULT, COLUMN_DTYPES, COLUMN_ARGUMENTS, COLUMNS };

static void cell_text(struct table *table, size_t column, const msgpack_object *object)
{
    if (object != NULL && object->type == MSGPACK_OBJECT_STR)
        table_cell(table, column, "%.*s", (int)object->via.str.size, object->via.str.ptr);
}

static void cell_list(struct table *table, size_t column, const msgpack_object_array *items)
{
    char text[TABLE_CELL_BYTES] = "";
    size_t at = 0;

    for (uint32_t i = 0; items != NULL && i < items->size && at < sizeof text; i++)
        if (items->ptr[i].type == MSGPACK_OBJECT_STR)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%.*s", i > 0 ? " " : "",
                                   (int)items->ptr[i].via.str.size, items->ptr[i].via.str.ptr);
    table_cell(table, column, "%s", text);
}

static bool is_true(const msgpack_object *object)
{
    return object != NULL && object->type == MSGPACK_OBJECT_BOOLEAN && object->via.boolean;
}

/* The next map of an array, or NULL at its end; other things are passed over. */
static const msgpack_object_map *next_map(const msgpack_object_array *items, uint32_t *at)
{
    while (items != NULL && *at < items->size) {
        const msgpack_object *const item = &items->ptr[(*at)++];
        if (item->type == MSGPACK_OBJECT_MAP)
            return &item->via.map;
    }
    return NULL;
}

static void argument_names(struct table *table, size_t column, const msgpack_object_array *items)
{
    const msgpack_object_map *item;
    char text[TABLE_CELL_BYTES] = "";
    size_t at = 0;
    uint32_t i = 0;

    while (at < sizeof text && (item = next_map(items, &i)) != NULL) {
        const msgpack_object *const name = reply_get(item, "name");
        const bool optional = is_true(reply_get(item, "optional"));
        if (name != NULL && name->type == MSGPACK_OBJECT_STR)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s%.*s%s", at > 0 ? " " : "", optional ? "[" : "",
                                   (int)name->via.str.size, name->via.str.ptr, optional ? "]" : "");
    }
    table_cell(table, column, "%s", text);
}

/* Maps, one a line, their keys in columns. */
static bool print_maps(const msgpack_object_array *items, const char *const *keys, size_t columns)
{
    const msgpack_object_map *item;
    struct table table;
    uint32_t i = 0;
    bool fits = true;

    table_init(&table, columns);
    while (fits && (item = next_map(items, &i)) != NULL) {
        fits = table_row(&table);
        for (size_t column = 0; fits && column < columns; column++)
            if (strcmp(keys[column], "optional") == 0)
                table_cell(&table, column, is_true(reply_get(item, "optional")) ? "optional" : "");
            else
                cell_text(&table, column, reply_get(item, keys[column]));
    }
    if (table.rows > 0)
        putchar('\n');
    table_print(&table, "  ");
    table_free(&table);
    return fits;
}

/* What one op does, its buffers, its arguments. */
static bool print_meaning(const msgpack_object_map *op)
{
    static const char *const buffer[] = {"name", "extent", "content"};
    static const char *const argument[] = {"name", "type", "optional", "help"};
    const msgpack_object *const help = reply_get(op, "help");

    if (help != NULL && help->type == MSGPACK_OBJECT_STR) {
        fputs("  ", stdout);
        print_words(help->via.str.ptr, help->via.str.size, 2, 2);
        putchar('\n');
    }
    return print_maps(reply_array(op, "buffers"), buffer, sizeof buffer / sizeof *buffer) &&
           print_maps(reply_array(op, "arguments"), argument, sizeof argument / sizeof *argument);
}

/* All ops, or the one that is wanted, with its meaning. */
static int print_table(const struct reply *reply, const char *wanted)
{
    const msgpack_object_array *const ops = reply_array(reply->map, "ops");
    const msgpack_object_map *found = NULL;
    struct table table;
    bool fits = true;

    table_init(&table, COLUMNS);
    for (uint32_t i = 0; ops != NULL && i < ops->size && fits; i++) {
        if (ops->ptr[i].type != MSGPACK_OBJECT_MAP)
            continue;
        const msgpack_object_map *const op = &ops->ptr[i].via.map;
        if (wanted != NULL && !reply_text_is(reply_get(op, "name"), wanted))
            continue;
        found = op;
        fits = table_row(&table);
        cell_text(&table, COLUMN_NAME, reply_get(op, "name"));
        cell_text(&table, COLUMN_SHAPE, reply_get(op, "shape"));
        cell_text(&table, COLUMN_RESULT, reply_get(op, "result"));
        cell_list(&table, COLUMN_DTYPES, reply_array(op, "dtypes"));
        argument_names(&table, COLUMN_ARGUMENTS, reply_array(op, "arguments"));
    }
    table_print(&table, "");
    table_free(&table);
    if (wanted != NULL && found == NULL)
        return complain(EXIT_FAILED, "the daemon has no op \"%s\"", wanted);
    if (wanted != NULL)
        fits &= print_meaning(found);
    return fits ? EXIT_DONE : complain(EXIT_FAILED, "out of memory");
}

static int print_ops(struct gm_client *client, const struct common *common, bool json, const char *wanted)
{
    struct reply reply;
    void *bytes;
    size_t size;

    if (gm_ops(client, command_deadline(common), &bytes, &size) != GM_OK)
        return complain_last(client, "ops");
    int rc = reply_unpack(bytes, size, &reply);
    if (rc == EXIT_DONE)
        rc = json ? reply_print_json(&reply) : print_table(&reply, wanted);
    reply_free(&reply);
    gm_free(bytes);
    return rc;
}

int cmd_ops(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, OPTION_JSON}, COMMON_LONG, {0}};
    struct common common = {.timeout_ns = UINT64_C(5000000000)};
    struct gm_client *client = NULL;
    bool json = false;
    int option;

    while ((option = getopt_long(argc, argv, COMMON_SHORT, options, NULL)) != -1) {
        json |= option == OPTION_JSON;
        if (option != OPTION_JSON && common_option(&common, option, optarg) <= 0)
            return usage_error("ops", "wrong usage of ops");
    }
    if (argc - optind > 1)
        return usage_error("ops", "ops takes one op at most");
    if (common.help) {
        print_help();
        return EXIT_DONE;
    }
    int rc = command_connect(&common, &client);
    if (rc == EXIT_DONE)
        rc = print_ops(client, &common, json, argv[optind]);
    gm_close(client);
    return rc;
}
