/* SPDX-License-Identifier: Apache-2.0
 *
 * gridmill stats: one snapshot of the daemon, for people or as JSON, and a health check by its exit code. One thread;
 * names and units come from the stats table of the protocol, the values from the daemon.
 */
#include "reply.h"
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_help(void)
{
    fputs("usage: gridmill stats [OPTION...]\n\n"
          "Prints one snapshot of the daemon and its devices. The exit code is 0 when all are healthy, 4 when the\n"
          "daemon answers but is not healthy, 3 when it cannot be reached.\n\n"
          "      --lanes         print a table of lanes too: yours, or all of them for root and on the admin socket\n"
          "      --users         print a table of users too, likewise, and what each may have\n"
          "      --json          print JSON, with the lanes and users\n" COMMON_HELP,
          stdout);
}

enum { OPTION_JSON = OPTION_FIRST, OPTION_LANES, OPTION_USERS };

enum scope { SCOPE_DAEMON, SCOPE_DEVICE, SCOPE_OP, SCOPE_LANE, SCOPE_USER };
enum kind { KIND_COUNTER, KIND_GAUGE, KIND_TEXT, KIND_HISTOGRAM };

struct stat_row {
    enum scope scope;
    enum kind kind;
    const char *name, *unit;
};

static const struct stat_row stat_rows[] = {
#define S(scope, name, kind, unit, help) {SCOPE_##scope, KIND_##kind, #name, unit},
#include "stats.def"
#undef S
};
#define STAT_ROWS (sizeof stat_rows / sizeof *stat_rows)

/* A value in steps of a factor: 1536 bytes are 1.5 KiB. */
static void print_scaled(char *out, size_t size, double value, double factor, const char *const *units)
{
    while (value >= factor && units[1] != NULL) {
        value /= factor;
        units++;
    }
    snprintf(out, size, value == (double)(uint64_t)value ? "%.0f %s" : "%.1f %s", value, *units);
}

static void print_duration_ms(char *out, size_t size, uint64_t ms)
{
    const uint64_t s = ms / 1000, m = s / 60, h = m / 60;

    if (s < 10)
        snprintf(out, size, "%" PRIu64 " ms", ms);
    else if (m < 10)
        snprintf(out, size, "%" PRIu64 " s", s);
    else if (h < 48)
        snprintf(out, size, "%" PRIu64 " h %02" PRIu64 " min", h, m % 60);
    else
        snprintf(out, size, "%" PRIu64 " d %02" PRIu64 " h", h / 24, h % 24);
}

static void print_number(char *out, size_t size, const char *unit, double value, bool integer, uint64_t exact)
{
    static const char *const bytes[] = {"B", "KiB", "MiB", "GiB", "TiB", NULL};
    static const char *const times[] = {"ns", "us", "ms", "s", NULL};

    if (strcmp(unit, "bytes") == 0)
        print_scaled(out, size, value, 1024, bytes);
    else if (strcmp(unit, "ns") == 0)
        print_scaled(out, size, value, 1000, times);
    else if (strcmp(unit, "ms") == 0)
        print_duration_ms(out, size, (uint64_t)value);
    else if (strcmp(unit, "ratio") == 0)
        snprintf(out, size, "%.1f %%", 100 * value);
    else if (integer)
        snprintf(out, size, "%" PRIu64, exact);
    else
        snprintf(out, size, "%g", value);
}

static void print_value(char *out, size_t size, const char *unit, const msgpack_object *object)
{
    out[0] = '\0';
    if (object == NULL)
        return;
    switch (object->type) {
    case MSGPACK_OBJECT_STR:
        snprintf(out, size, "%.*s", (int)object->via.str.size, object->via.str.ptr);
        break;
    case MSGPACK_OBJECT_BOOLEAN:
        snprintf(out, size, "%s", object->via.boolean ? "yes" : "no");
        break;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        print_number(out, size, unit, (double)object->via.u64, true, object->via.u64);
        break;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        snprintf(out, size, "%" PRId64, object->via.i64);
        break;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        print_number(out, size, unit, object->via.f64, false, 0);
        break;
    default:
        break;
    }
}

/* One line per figure, one column per map: the daemon alone, or the devices beside each other. */
static bool print_columns(const char *title, enum scope scope, const msgpack_object_map *const *maps, size_t count)
{
    struct table table;
    char value[TABLE_CELL_BYTES];
    bool fits = true;

    table_init(&table, 1 + count);
    for (size_t r = 0; r < STAT_ROWS && fits; r++) {
        if (stat_rows[r].scope != scope)
            continue;
        fits = table_row(&table);
        table_cell(&table, 0, "%s", stat_rows[r].name);
        for (size_t c = 0; c < count; c++) {
            print_value(value, sizeof value, stat_rows[r].unit, reply_get(maps[c], stat_rows[r].name));
            table_cell(&table, 1 + c, "%s", value);
        }
    }
    printf("%s\n", title);
    table_print(&table, "  ");
    table_free(&table);
    return fits;
}

static const char *const quantiles[] = {"p50", "p99", "max"};
#define QUANTILES (sizeof quantiles / sizeof *quantiles)

/* A histogram is three columns, everything else one. */
static size_t op_cells(struct table *table, const msgpack_object_map *op, bool heading)
{
    char value[TABLE_CELL_BYTES];
    size_t column = 0;

    for (size_t r = 0; r < STAT_ROWS; r++) {
        const struct stat_row *const row = &stat_rows[r];
        if (row->scope != SCOPE_OP)
            continue;
        const size_t parts = row->kind == KIND_HISTOGRAM ? QUANTILES : 1;
        for (size_t q = 0; q < parts; q++, column++) {
            const msgpack_object *const object =
                parts == 1 ? reply_get(op, row->name) : reply_get(reply_map(op, row->name), quantiles[q]);
            print_value(value, sizeof value, row->unit, object);
            if (heading && parts > 1)
                snprintf(value, sizeof value, "%s %s", row->name, quantiles[q]);
            table->right[column] = row->kind != KIND_TEXT;
            table_cell(table, column, "%s", heading && parts == 1 ? row->name : value);
        }
    }
    return column;
}

/* Of which jobs the times are: without this line they would look like those of all. */
static void print_covered(const msgpack_object_array *ops)
{
    uint64_t done = 0, timed = 0, sampled = 0, value;

    for (uint32_t i = 0; i < ops->size; i++) {
        if (ops->ptr[i].type != MSGPACK_OBJECT_MAP)
            continue;
        const msgpack_object_map *const op = &ops->ptr[i].via.map;
        done += reply_u64(op, "done", &value) ? value : 0;
        timed += reply_u64(reply_map(op, "run"), "count", &value) ? value : 0;
        sampled += reply_u64(reply_map(op, "lane_run"), "count", &value) ? value : 0;
    }
    const uint64_t lanes = done > timed ? done - timed : 0;
    printf("  wait and run are of the %" PRIu64 " jobs done by sockets (%.1f %% of %" PRIu64 ");\n"
           "  lane_run is of %" PRIu64 " samples from the %" PRIu64 " done by lanes\n",
           timed, done != 0 ? 100.0 * (double)timed / (double)done : 100.0, done, sampled, lanes);
}

static bool print_ops(const msgpack_object_array *ops)
{
    struct table table;
    uint64_t done, failed;

    table_init(&table, 3 + 3 * QUANTILES);
    bool fits = table_row(&table);
    op_cells(&table, NULL, true);
    for (uint32_t i = 0; ops != NULL && i < ops->size && fits; i++) {
        if (ops->ptr[i].type != MSGPACK_OBJECT_MAP)
            continue;
        const msgpack_object_map *const op = &ops->ptr[i].via.map;
        /* An op that nobody used says nothing. */
        if (reply_u64(op, "done", &done) && reply_u64(op, "failed", &failed) && done + failed == 0)
            continue;
        fits = table_row(&table);
        op_cells(&table, op, false);
    }
    if (table.rows > 1) {
        printf("ops\n");
        table_print(&table, "  ");
        print_covered(ops);
    }
    table_free(&table);
    return fits;
}

static void row_cells(struct table *table, enum scope scope, const msgpack_object_map *map)
{
    char value[TABLE_CELL_BYTES];
    size_t column = 0;

    for (size_t r = 0; r < STAT_ROWS; r++) {
        if (stat_rows[r].scope != scope)
            continue;
        print_value(value, sizeof value, stat_rows[r].unit, map != NULL ? reply_get(map, stat_rows[r].name) : NULL);
        table->right[column] = stat_rows[r].kind != KIND_TEXT;
        table_cell(table, column++, "%s", map != NULL ? value : stat_rows[r].name);
    }
}

/* One line per map: lanes, users. */
static bool print_rows(const char *title, enum scope scope, const msgpack_object_array *maps)
{
    struct table table;
    size_t columns = 0;

    for (size_t r = 0; r < STAT_ROWS; r++)
        columns += stat_rows[r].scope == scope;
    table_init(&table, columns);
    bool fits = table_row(&table);
    row_cells(&table, scope, NULL);
    for (uint32_t i = 0; maps != NULL && i < maps->size && fits; i++)
        if (maps->ptr[i].type == MSGPACK_OBJECT_MAP && (fits = table_row(&table)))
            row_cells(&table, scope, &maps->ptr[i].via.map);
    printf("%s\n", title);
    table_print(&table, "  ");
    table_free(&table);
    return fits;
}

static void print_caps(const msgpack_object_map *limits)
{
    static const struct {
        const char *name, *unit, *what;
    } caps[] = {{"sessions_per_user", "", "sessions"},
                {"inflight_per_user", "", "jobs of sockets in flight"},
                {"lanes_per_user", "", "lanes on a device"},
                {"arenas_per_user", "", "arenas"},
                {"arena_bytes_per_user", "bytes", "in arenas and lanes"},
                {"shared_bytes_per_user", "bytes", "of that shared"}};
    char value[TABLE_CELL_BYTES];

    printf("  a user may have");
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        print_value(value, sizeof value, caps[i].unit, reply_get(limits, caps[i].name));
        printf("%s %s %s", i != 0 ? "," : "", value, caps[i].what);
    }
    printf("\n");
}

static int print_table(const struct reply *reply, bool lanes, bool users)
{
    const msgpack_object_map *const daemon = reply_map(reply->map, "daemon");
    const msgpack_object_array *const devices = reply_array(reply->map, "devices");
    const msgpack_object_map *maps[TABLE_COLUMNS_MAX - 1];
    size_t count = 0;

    bool fits = print_columns("daemon", SCOPE_DAEMON, &daemon, 1);
    for (uint32_t i = 0; devices != NULL && i < devices->size && count < TABLE_COLUMNS_MAX - 1; i++)
        if (devices->ptr[i].type == MSGPACK_OBJECT_MAP)
            maps[count++] = &devices->ptr[i].via.map;
    fits &= print_columns("devices", SCOPE_DEVICE, maps, count);
    fits &= print_ops(reply_array(reply->map, "ops"));
    if (lanes)
        fits &= print_rows("lanes", SCOPE_LANE, reply_array(reply->map, "lanes"));
    if (users) {
        fits &= print_rows("users", SCOPE_USER, reply_array(reply->map, "users"));
        print_caps(reply_map(reply->map, "limits"));
    }
    return fits ? EXIT_DONE : complain(EXIT_FAILED, "out of memory");
}

static int print_stats(struct gm_client *client, const struct common *common, bool json, bool lanes, bool users)
{
    struct reply reply;
    void *bytes;
    size_t size;
    uint64_t healthy = 0;

    if (gm_stats(client, command_deadline(common), &bytes, &size) != GM_OK)
        return complain_last(client, "stats");
    int rc = reply_unpack(bytes, size, &reply);
    if (rc == EXIT_DONE)
        rc = json ? reply_print_json(&reply) : print_table(&reply, lanes, users);
    if (rc == EXIT_DONE && (!reply_u64(reply_map(reply.map, "daemon"), "healthy", &healthy) || healthy != 1))
        rc = EXIT_UNHEALTHY;
    reply_free(&reply);
    gm_free(bytes);
    return rc;
}

int cmd_stats(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, OPTION_JSON},
                                            {"lanes", no_argument, NULL, OPTION_LANES},
                                            {"users", no_argument, NULL, OPTION_USERS},
                                            COMMON_LONG,
                                            {0}};
    struct common common = {.timeout_ns = UINT64_C(5000000000)};
    struct gm_client *client = NULL;
    bool json = false, lanes = false, users = false;
    int option;

    while ((option = getopt_long(argc, argv, COMMON_SHORT, options, NULL)) != -1) {
        json |= option == OPTION_JSON;
        lanes |= option == OPTION_LANES;
        users |= option == OPTION_USERS;
        if (option < OPTION_FIRST && common_option(&common, option, optarg) <= 0)
            return usage_error("stats", "wrong usage of stats");
    }
    if (optind != argc)
        return usage_error("stats", "stats takes no arguments");
    if (common.help) {
        print_help();
        return EXIT_DONE;
    }
    int rc = command_connect(&common, &client);
    if (rc == EXIT_DONE)
        rc = print_stats(client, &common, json, lanes, users);
    gm_close(client);
    return rc;
}
