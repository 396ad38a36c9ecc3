// Registered memory: every process reads and writes memory of its neighbour, with random ranges
// against a copy, with messages after the data, fences, permissions, and deregistration while
// operations are underway. On one host, and ("far") as if on several.
// run: 1 2 3
// each: near far
// hosts
// combray.h
#include "check.h"

#include <combray.h>

enum { URI = 256, BYTES = 300000, ROUNDS = 250, HELD_MAX = 2000 };

static combray_endpoint endpoint;
static combray_connection out, in;
static unsigned char memory[BYTES], copy[BYTES], local[BYTES];
static combray_memory names[16];
static int right;

static combray_event next(void) {
    combray_event event;
    OK(combray_endpoint_poll(endpoint, &event, 60000));
    REQUIRE(event.type != COMBRAY_EVENT_NONE, "nothing happens");
    return event;
}

static combray_event expect(int type) {
    combray_event event = next();
    char text[MPI_MAX_ERROR_STRING] = "";
    combray_error_string(event.status, text, sizeof text);
    REQUIRE(event.type == type, "event %d instead of %d: %s", event.type, type, text);
    return event;
}

static void expect_end(void *context, int class) {
    combray_event event = expect(COMBRAY_COMPLETED);
    CHECK(event.context == context && event.connection == out, " ");
    CHECK_EQ(class_of(event.status), class);
}

// The neighbours are connected in a ring.
static void connect_all(void) {
    char own[URI], uris[16][URI];
    OK(combray_endpoint_uri(endpoint, own, URI));
    OK(MPI_Allgather(own, URI, MPI_CHAR, uris, URI, MPI_CHAR, MPI_COMM_WORLD));
    OK(combray_connect(endpoint, uris[right], NULL, 0, NULL, -1, &out));
    for (int made = 0; made < 2; made++) {
        combray_event event = next();
        if (event.type == COMBRAY_CONNECT_REQUEST) OK(combray_accept(in = event.connection, NULL));
        else REQUIRE(event.type == COMBRAY_CONNECTED, "%d", event.type);
    }
}

static void share(void *address, size_t bytes, int permissions, combray_memory *own) {
    OK(combray_memory_register(endpoint, address, bytes, permissions, own));
    OK(MPI_Allgather(own, sizeof *own, MPI_BYTE, names, sizeof *own, MPI_BYTE, MPI_COMM_WORLD));
}

// Takes the events of this process until all operations have ended. Messages in between are those
// of the left neighbour, which announce writes.
static void complete(int *underway) {
    while (*underway > 0) {
        combray_event event = next();
        REQUIRE(event.type == COMBRAY_COMPLETED, "%d", event.type);
        CHECK_EQ(event.status, MPI_SUCCESS);
        --*underway;
    }
}

static void random_ranges(void) {
    Random state = random_from(7 + check_rank);
    int underway = 0;
    pattern_fill(memory, BYTES, check_rank);
    pattern_fill(copy, BYTES, right);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < ROUNDS; round++) {
        size_t bytes = (size_t)random_below(&state, round % 8 ? 5000 : BYTES);
        size_t offset = (size_t)random_below(&state, (int)(BYTES - bytes + 1));
        switch (random_below(&state, 5)) {
        case 0:
        case 1:
            // The memory at `local` is in use until the write has ended.
            complete(&underway);
            pattern_fill(local, bytes, round);
            OK(combray_memory_write(out, &names[right], offset, local, bytes, NULL, 0, NULL, COMBRAY_NOTIFY));
            memcpy(copy + offset, local, bytes);
            underway++;
            break;
        case 2:
            complete(&underway);
            memset(local, 1, bytes);
            OK(combray_memory_read(out, &names[right], offset, local, bytes, NULL, COMBRAY_NOTIFY));
            underway++;
            complete(&underway);
            REQUIRE(memcmp(local, copy + offset, bytes) == 0, "round %d: %zu bytes at %zu differ", round, bytes, offset);
            break;
        case 3: {
            // A write, a fence, and a read of other memory, at a time.
            static unsigned char before[BYTES];
            complete(&underway);
            pattern_fill(local, bytes, -round);
            OK(combray_memory_read(out, &names[right], offset, before, bytes, NULL, COMBRAY_NOTIFY));
            OK(combray_memory_fence(out, NULL, 0));
            OK(combray_memory_write(out, &names[right], offset, local, bytes, NULL, 0, NULL, 0));
            OK(combray_memory_fence(out, NULL, COMBRAY_NOTIFY));
            underway += 2;
            complete(&underway);
            REQUIRE(memcmp(before, copy + offset, bytes) == 0, "a write has overtaken a read");
            memcpy(copy + offset, local, bytes);
            break;
        }
        default:
            OK(combray_memory_fence(out, NULL, COMBRAY_NOTIFY));
            underway++;
        }
    }
    complete(&underway);
    memset(local, 0, BYTES);
    OK(combray_memory_read(out, &names[right], 0, local, BYTES, NULL, COMBRAY_NOTIFY));
    expect_end(NULL, MPI_SUCCESS);
    CHECK(memcmp(local, copy, BYTES) == 0, "the memory differs from the copy");
    MPI_Barrier(MPI_COMM_WORLD);
}

// A message after a write arrives when the bytes are there, and messages that are sent later after
// it. The right neighbour answers, so that its memory is written once at a time.
static void messages_after_data(void) {
    for (int round = 0; round < 20; round++) {
        size_t bytes = round % 4 ? 1000 : BYTES;
        pattern_fill(local, bytes, round + 100 * check_rank);
        OK(combray_memory_write(out, &names[right], 0, local, bytes, &bytes, sizeof bytes, &round, COMBRAY_NOTIFY));
        int code, sent = 0, answered = 0, got = 0, ended = 0;
        code = combray_send(out, "later", 6, NULL, 0);
        CHECK(code == MPI_SUCCESS || class_of(code) == MPI_ERR_PENDING, "%d", code);
        sent = code == MPI_SUCCESS;
        while (!(sent && answered && ended && got == 2)) {
            combray_event event = next();
            switch (event.type) {
            case COMBRAY_COMPLETED:
                CHECK_EQ(event.status, MPI_SUCCESS);
                ended++;
                break;
            case COMBRAY_WRITABLE: OK(combray_send(out, "later", 6, NULL, 0)), sent = 1; break;
            case COMBRAY_RECEIVED:
                if (event.connection == out) {
                    answered++;
                } else if (got++ == 0) {
                    size_t written;
                    REQUIRE(event.bytes == sizeof written, "%zu bytes", event.bytes);
                    memcpy(&written, event.data, sizeof written);
                    CHECK_PATTERN(memory, written, round + 100 * ((check_rank + check_size - 1) % check_size));
                } else {
                    CHECK(strcmp(event.data, "later") == 0, " ");
                    OK(combray_send(in, "", 1, NULL, 0));
                }
                OK(combray_return(endpoint, &event));
                break;
            default: REQUIRE(0, "event %d", event.type);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void refusals(combray_memory *own) {
    combray_memory readable, writable, forged;
    combray_event event;
    CHECK_EQ(class_of(combray_memory_register(endpoint, memory, 0, COMBRAY_MAY_READ, &forged)), MPI_ERR_COUNT);
    CHECK_EQ(class_of(combray_memory_register(endpoint, memory, 1, 0, &forged)), MPI_ERR_ARG);
    CHECK_EQ(class_of(combray_memory_register(endpoint, memory, 1, 4, &forged)), MPI_ERR_ARG);
    CHECK_EQ(class_of(combray_memory_register(endpoint, NULL, 1, COMBRAY_MAY_READ, &forged)), MPI_ERR_BUFFER);
    CHECK_EQ(class_of(combray_memory_read(out, &names[right], BYTES, local, 1, NULL, 0)), MPI_ERR_RMA_RANGE);
    CHECK_EQ(class_of(combray_memory_read(out, &names[right], SIZE_MAX, local, 2, NULL, 0)), MPI_ERR_RMA_RANGE);
    CHECK_EQ(class_of(combray_memory_write(out, &names[right], 0, local, 1, NULL, 0, NULL, 5)), MPI_ERR_ARG);
    forged = *own;
    forged.bytes[8] ^= 1;
    CHECK_EQ(class_of(combray_memory_deregister(endpoint, &forged)), MPI_ERR_BASE);
    // That changed nothing.
    OK(combray_memory_deregister(endpoint, own));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(class_of(combray_memory_deregister(endpoint, own)), MPI_ERR_BASE);
    OK(combray_memory_read(out, &names[right], 0, local, 1, own, 0));
    expect_end(own, MPI_ERR_BASE);
    pattern_fill(memory, BYTES, 3);
    share(memory, 100, COMBRAY_MAY_READ, &readable);
    CHECK_EQ(class_of(combray_memory_write(out, &names[right], 0, local, 1, NULL, 0, NULL, 0)), MPI_ERR_ACCESS);
    // The owner checks it, too: the permissions, the length and the secrets in the name.
    static const struct {
        int byte, value, class;
    } changes[] = {{4, 3, MPI_ERR_ACCESS}, {16, 200, MPI_ERR_RMA_RANGE}, {8, -1, MPI_ERR_BASE}, {0, -1, MPI_ERR_BASE}};
    for (int change = 0; change < 4; change++) {
        forged = names[right];
        memset(forged.bytes + 24, 0, 16);
        if (changes[change].value < 0) forged.bytes[changes[change].byte] ^= 1;
        else forged.bytes[changes[change].byte] = changes[change].value;
        if (changes[change].class == MPI_ERR_ACCESS)
            OK(combray_memory_write(out, &forged, 0, local, 1, "no", 3, &forged, 0));
        else OK(combray_memory_read(out, &forged, 100, local, changes[change].byte == 16 ? 1 : 0, &forged, 0));
        expect_end(&forged, changes[change].class);
    }
    forged = names[right];
    memset(forged.bytes + 32, 5, 8);
    OK(combray_memory_read(out, &forged, 0, local, 1, &forged, 0));
    if (combray_endpoint_poll(endpoint, &event, 0) == MPI_SUCCESS && event.type == COMBRAY_COMPLETED)
        CHECK_EQ(class_of(event.status), MPI_ERR_BASE);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_PATTERN(memory, BYTES, 3);
    share(memory, 100, COMBRAY_MAY_WRITE, &writable);
    CHECK_EQ(class_of(combray_memory_read(out, &names[right], 0, local, 1, NULL, 0)), MPI_ERR_ACCESS);
    pattern_fill(local, 100, 4);
    OK(combray_memory_write(out, &names[right], 0, local, 100, NULL, 0, NULL, COMBRAY_NOTIFY));
    expect_end(NULL, MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_PATTERN(memory, 100, 4);
    OK(combray_memory_deregister(endpoint, &readable));
    OK(combray_memory_deregister(endpoint, &writable));
    CHECK_EQ(class_of(combray_memory_deregister(endpoint, &writable)), MPI_ERR_BASE);
    MPI_Barrier(MPI_COMM_WORLD);
}

// While the neighbour writes, the memory is deregistered: after that it does not change, and all
// further writes are refused, with their messages.
static void deregistration(void) {
    combray_memory own;
    int refused = 0, ended = 0, underway = 0, messages = 0, done = 0;
    share(memory, BYTES, COMBRAY_MAY_READ | COMBRAY_MAY_WRITE, &own);
    for (int round = 0; refused < 50 || round <= 100; round++) {
        if (round == 100) {
            OK(combray_memory_deregister(endpoint, &own));
            memcpy(copy, memory, BYTES);
        }
        size_t bytes = round % 2 ? BYTES : 10;
        int code = combray_memory_write(out, &names[right], 0, local, bytes, "m", 2, NULL, COMBRAY_NOTIFY);
        if (code == MPI_SUCCESS) underway++;
        else CHECK_EQ(class_of(code), MPI_ERR_PENDING);
        combray_event event;
        do {
            OK(combray_endpoint_poll(endpoint, &event, underway > 8 ? 60000 : 0));
            if (event.type == COMBRAY_RECEIVED) {
                if (event.bytes == 8) done = 1;
                else messages++;
            }
            OK(combray_return(endpoint, &event));
            if (event.type == COMBRAY_COMPLETED) {
                int class = class_of(event.status);
                CHECK(class == MPI_SUCCESS || class == MPI_ERR_BASE, "%d", class);
                CHECK(class == MPI_ERR_BASE || refused == 0, "a write after the deregistration");
                refused += class == MPI_ERR_BASE;
                ended += class == MPI_SUCCESS;
                underway--;
            }
        } while (event.type != COMBRAY_EVENT_NONE);
    }
    CHECK(memcmp(copy, memory, BYTES) == 0, "a write after the deregistration");
    // Both sides have as many messages as writes that were carried out.
    int is_sent = 0;
    while (underway > 0 || !done || !is_sent) {
        if (!is_sent) is_sent = combray_send(out, "the end", 8, NULL, 0) == MPI_SUCCESS;
        combray_event event;
        OK(combray_endpoint_poll(endpoint, &event, 10));
        if (event.type == COMBRAY_RECEIVED) {
            if (event.bytes == 8) done = 1;
            else messages++;
        }
        if (event.type == COMBRAY_COMPLETED) {
            CHECK_EQ(class_of(event.status), MPI_ERR_BASE);
            underway--;
        }
        OK(combray_return(endpoint, &event));
    }
    int theirs;
    OK(MPI_Sendrecv(&ended, 1, MPI_INT, right, 0, &theirs, 1, MPI_INT, (check_rank + check_size - 1) % check_size, 0,
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(messages, theirs);
    CHECK(memcmp(copy, memory, BYTES) == 0, "a write after the deregistration");
}

int main(int argc, char **argv) {
    const char *rank = getenv("COMBRAY_RANK");
    if (argc > 1 && !strcmp(argv[1], "far") && rank && !getenv("COMBRAY_NODE"))
        setenv("COMBRAY_NODE", rank, 1);
    check_begin();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    right = (check_rank + 1) % check_size;
    combray_memory own;
    OK(combray_endpoint_open(getenv("ENDPOINT_OPTIONS"), &endpoint));
    connect_all();
    share(memory, BYTES, COMBRAY_MAY_READ | COMBRAY_MAY_WRITE, &own);
    random_ranges();
    messages_after_data();
    refusals(&own);
    deregistration();
    MPI_Barrier(MPI_COMM_WORLD);
    OK(combray_endpoint_close(&endpoint));
    return check_end();
}
