/* SPDX-License-Identifier: Apache-2.0
 *
 * gridmill arena: puts the data of a file into a named arena, lists the named arenas, removes them. One thread; device
 * memory is filled by copy jobs from a shared arena of UPLOAD_BYTES.
 */
#include "input.h"
#include "reply.h"
#include "table.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define UPLOAD_BYTES (UINT64_C(8) << 20)

struct arena_options {
    struct common common;
    const char *device; /* as given, or NULL */
    uint32_t dtype;
    bool shared, all, json;
    int count; /* of arguments behind the action */
    char **arguments;
};

static void print_help(void)
{
    fputs("usage: gridmill arena put FILE NAME [OPTION...]\n"
          "       gridmill arena ls [OPTION...]\n"
          "       gridmill arena rm NAME... [OPTION...]\n\n"
          "Named arenas keep data for every process of a user: `gridmill run OP @NAME` reads it, and so does what\n"
          "attaches to it. They stay until they are removed.\n\n"
          "put: FILE is a .npy file, a file of raw elements (with --dtype), or - for standard input\n"
          "  -d, --device WHICH  number of the device whose memory it takes, or cpu, or cuda (default: the daemon's\n"
          "                      choice)\n"
          "      --shared        memory of the host, which every device reaches, instead of a device's\n"
          "  -t, --dtype TYPE    element type of raw data and of text\n"
          "ls:\n"
          "      --all           of all users; uses the admin socket\n"
          "      --json          print JSON\n" COMMON_HELP,
          stdout);
}

enum { OPTION_SHARED = OPTION_FIRST, OPTION_ALL, OPTION_JSON };

static const struct option options[] = {{"device", required_argument, NULL, 'd'},
                                        {"dtype", required_argument, NULL, 't'},
                                        {"shared", no_argument, NULL, OPTION_SHARED},
                                        {"all", no_argument, NULL, OPTION_ALL},
                                        {"json", no_argument, NULL, OPTION_JSON},
                                        COMMON_LONG,
                                        {0}};

static int take_option(struct arena_options *o, int option, const char *value)
{
    const int dtype = option == 't' ? gm_element_by_name(value) : 0;

    switch (option) {
    case 'd':
        o->device = value;
        return EXIT_DONE;
    case 't':
        o->dtype = (uint32_t)dtype;
        return dtype >= 0 ? EXIT_DONE : usage_error("arena", "--dtype: \"%s\" is not an element type", value);
    case OPTION_SHARED:
        o->shared = true;
        return EXIT_DONE;
    case OPTION_ALL:
        o->all = o->common.admin = true;
        return EXIT_DONE;
    case OPTION_JSON:
        o->json = true;
        return EXIT_DONE;
    default: /* getopt_long has said what is wrong */
        return usage_error("arena", "wrong usage of arena");
    }
}

static int parse(struct arena_options *o, int argc, char **argv)
{
    int option, rc = EXIT_DONE;

    while (rc == EXIT_DONE && (option = getopt_long(argc, argv, "d:t:" COMMON_SHORT, options, NULL)) != -1) {
        const int common = common_option(&o->common, option, optarg);
        rc = common < 0 ? EXIT_USAGE : common > 0 ? EXIT_DONE : take_option(o, option, optarg);
    }
    o->count = argc - optind;
    o->arguments = argv + optind;
    return rc;
}

/* ---- put ---- */

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    interrupted = number;
}

/* A name with half of its data must not stay behind, so the signals that people send end the upload in good order. */
static void catch_interrupts(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction action = {.sa_handler = interrupt};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
}

static int upload_piece(struct gm_client *client, const struct arena_options *o, const struct gm_arena *from,
                        const struct gm_arena *to, uint64_t at, uint64_t bytes)
{
    struct gm_request request = gm_request("copy", GM_U8, bytes);

    request.in[0] = gm_in_arena(from, 0, bytes);
    request.out[0] = gm_in_arena(to, at, bytes);
    if (gm_run(client, &request, command_deadline(&o->common), NULL) == GM_OK)
        return EXIT_DONE;
    return complain_last(client, "copy");
}

static int upload(struct gm_client *client, const struct arena_options *o, const struct input *input,
                  const struct gm_arena *to)
{
    const uint64_t piece = input->bytes < UPLOAD_BYTES ? input->bytes : UPLOAD_BYTES;
    struct gm_arena *window = NULL;
    int rc = EXIT_DONE;

    if (gm_arena_data(to) == NULL &&
        gm_arena_create(client, piece, GM_MEMORY_SHARED, GM_DEVICE_ANY, command_deadline(&o->common), &window) != GM_OK)
        return complain_last(client, "shared arena");
    for (uint64_t at = 0; at < input->bytes && rc == EXIT_DONE; at += piece) {
        const uint64_t bytes = input->bytes - at < piece ? input->bytes - at : piece;
        char *const memory = window != NULL ? gm_arena_data(window) : (char *)gm_arena_data(to) + at;
        rc = input_read(input, at, memory, bytes);
        if (rc == EXIT_DONE && window != NULL)
            rc = upload_piece(client, o, window, to, at, bytes);
        if (rc == EXIT_DONE && interrupted != 0)
            rc = complain(EXIT_FAILED, "%s: interrupted", o->arguments[1]);
    }
    return rc;
}

static int put(struct gm_client *client, const struct arena_options *o, const struct input *input)
{
    const uint64_t second_ns = UINT64_C(1000000000);
    const char *const name = o->arguments[1];
    struct gm_arena *arena = NULL;
    int device = GM_DEVICE_ANY;

    const int rc = reply_device(client, &o->common, o->device, &device);
    if (rc != EXIT_DONE)
        return rc;
    catch_interrupts();
    if (gm_arena_create_named(client, name, input->bytes, o->shared ? GM_MEMORY_SHARED : GM_MEMORY_DEVICE, device,
                              command_deadline(&o->common), &arena) != GM_OK)
        return complain_last(client, name);
    const int uploaded = upload(client, o, input, arena);
    if (uploaded != EXIT_DONE)
        (void)gm_arena_remove(client, name, gm_deadline_in(second_ns));
    /* What the daemon does not answer in time goes with the session. */
    (void)gm_arena_free(arena, gm_deadline_in(second_ns));
    return uploaded;
}

static int arena_put(struct arena_options *o)
{
    struct gm_client *client = NULL;
    struct input input = {.fd = -1};

    if (o->count != 2)
        return usage_error("arena", "arena put needs a file and a name");
    if (o->shared && o->device != NULL)
        return usage_error("arena", "--shared memory belongs to no device");
    int rc = input_open(o->arguments[0], o->dtype, "--dtype", UINT64_MAX, &input);
    if (rc == EXIT_DONE && input.bytes == 0)
        rc = complain(EXIT_FAILED, "%s: is empty", input.name);
    if (rc == EXIT_DONE)
        rc = command_connect(&o->common, &client);
    if (rc == EXIT_DONE)
        rc = put(client, o, &input);
    input_close(&input);
    gm_close(client);
    return rc;
}

/* ---- ls, rm ---- */

enum { COLUMN_NAME, COLUMN_BYTES, COLUMN_KIND, COLUMN_DEVICE, COLUMN_ATTACHED, COLUMN_UID, COLUMNS };

static void cell_number(struct table *table, size_t column, const msgpack_object_map *row, const char *key)
{
    uint64_t value;

    if (reply_u64(row, key, &value))
        table_cell(table, column, "%llu", (unsigned long long)value);
}

static void cell_text(struct table *table, size_t column, const msgpack_object *object)
{
    if (object != NULL && object->type == MSGPACK_OBJECT_STR)
        table_cell(table, column, "%.*s", (int)object->via.str.size, object->via.str.ptr);
}

static int print_table(const struct arena_options *o, const struct reply *reply)
{
    static const char *const heads[COLUMNS] = {"name", "bytes", "kind", "device", "attached", "uid"};
    const msgpack_object_array *const rows = reply_array(reply->map, "arenas");
    const size_t columns = o->all ? COLUMNS : COLUMNS - 1;
    struct table table;

    table_init(&table, columns);
    table.right[COLUMN_BYTES] = table.right[COLUMN_DEVICE] = table.right[COLUMN_ATTACHED] = true;
    table.right[COLUMN_UID] = true;
    bool fits = table_row(&table);
    for (size_t i = 0; i < columns && fits; i++)
        table_cell(&table, i, "%s", heads[i]);
    for (uint32_t i = 0; rows != NULL && i < rows->size && fits; i++) {
        if (rows->ptr[i].type != MSGPACK_OBJECT_MAP)
            continue;
        const msgpack_object_map *const row = &rows->ptr[i].via.map;
        fits = table_row(&table);
        if (!fits)
            break;
        cell_text(&table, COLUMN_NAME, reply_get(row, "name"));
        cell_number(&table, COLUMN_BYTES, row, "bytes");
        cell_text(&table, COLUMN_KIND, reply_get(row, "kind"));
        cell_number(&table, COLUMN_DEVICE, row, "device");
        cell_number(&table, COLUMN_ATTACHED, row, "attached");
        if (o->all)
            cell_number(&table, COLUMN_UID, row, "uid");
    }
    if (rows != NULL && rows->size > 0)
        table_print(&table, "");
    table_free(&table);
    return fits ? EXIT_DONE : complain(EXIT_FAILED, "out of memory");
}

static int arena_ls(struct arena_options *o)
{
    struct gm_client *client = NULL;
    struct reply reply;
    void *bytes = NULL;
    size_t size;

    if (o->count != 0)
        return usage_error("arena", "arena ls takes no arguments");
    int rc = command_connect(&o->common, &client);
    if (rc != EXIT_DONE)
        return rc;
    if (gm_arena_list(client, command_deadline(&o->common), &bytes, &size) != GM_OK) {
        rc = complain_last(client, "arena ls");
        gm_close(client);
        return rc;
    }
    rc = reply_unpack(bytes, size, &reply);
    if (rc == EXIT_DONE)
        rc = o->json ? reply_print_json(&reply) : print_table(o, &reply);
    reply_free(&reply);
    gm_free(bytes);
    gm_close(client);
    return rc;
}

/* All that can be removed are; the exit code is that of the first that cannot. */
static int arena_rm(struct arena_options *o)
{
    struct gm_client *client = NULL;

    if (o->count == 0)
        return usage_error("arena", "arena rm needs a name");
    int rc = command_connect(&o->common, &client);
    if (rc != EXIT_DONE)
        return rc;
    for (int i = 0; i < o->count; i++)
        if (gm_arena_remove(client, o->arguments[i], command_deadline(&o->common)) != GM_OK) {
            const int failed = complain_last(client, o->arguments[i]);
            rc = rc == EXIT_DONE ? failed : rc;
        }
    gm_close(client);
    return rc;
}

int cmd_arena(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(struct arena_options *o);
        uint64_t timeout_ns;
    } actions[] = {{"put", arena_put, GM_NO_DEADLINE},
                   {"ls", arena_ls, UINT64_C(5000000000)},
                   {"rm", arena_rm, UINT64_C(5000000000)}};
    struct arena_options o = {.dtype = GM_NO_ELEMENT};
    size_t at = 0;

    while (at < sizeof actions / sizeof *actions && (argc < 2 || strcmp(argv[1], actions[at].name) != 0))
        at++;
    const bool found = at < sizeof actions / sizeof *actions;
    o.common.timeout_ns = found ? actions[at].timeout_ns : GM_NO_DEADLINE;
    const int rc = found ? parse(&o, argc - 1, argv + 1) : parse(&o, argc, argv);
    if (rc != EXIT_DONE)
        return rc;
    if (o.common.help) {
        print_help();
        return EXIT_DONE;
    }
    if (!found)
        return usage_error("arena", "arena needs put, ls or rm");
    return actions[at].run(&o);
}
