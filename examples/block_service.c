/* A service whose clients write and read blocks of its memory themselves. The service hands out
 * names, checks what a message after the data announces, and takes the memory back when a client
 * leaves or is killed.
 *
 *     block_service serve FILE CLIENTS       (writes its URI to FILE; ends after so many clients)
 *     block_service use FILE ROUNDS          (as many as CLIENTS, on any host that sees FILE)
 *
 * Nobody else needs to be started: no launcher, and no MPI_Init. Compile it with mpicc. */
#define _DEFAULT_SOURCE
#include <combray.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 4096, BLOCKS_OF_CLIENT = 16, BYTES = BLOCK * BLOCKS_OF_CLIENT, URI = 256 };

/* What a client sends after it has written a block: which one, and the sum of its bytes. */
typedef struct {
    uint32_t block, sum;
} written;

/* The service has one for each client: the context of its connection. */
typedef struct {
    unsigned char bytes[BYTES];
    combray_memory name;
    long checked;
} part;

static combray_endpoint endpoint;

static void sure(int code, const char *call) {
    char text[MPI_MAX_ERROR_STRING] = "";
    if (code == MPI_SUCCESS) return;
    combray_error_string(code, text, sizeof text);
    fprintf(stderr, "%s: %s\n", call, text);
    exit(1);
}
#define SURE(call) sure((call), #call)

static void fail(const char *what) {
    fprintf(stderr, "block_service: %s\n", what);
    exit(1);
}

static uint32_t sum_of(const unsigned char *block) {
    uint32_t sum = 0;
    for (int at = 0; at < BLOCK; at++) sum = sum * 31 + block[at];
    return sum;
}

static combray_event next(void) {
    combray_event event;
    SURE(combray_endpoint_poll(endpoint, &event, -1));
    return event;
}

/* Sends something short to a client. The window holds many such messages; a client that takes none
 * of them harms only itself, and one that was killed ends with an event. */
static void reply(combray_connection to, const void *data, size_t bytes) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int code = combray_send(to, data, bytes, NULL, 0);
    combray_error_string(code, text, sizeof text);
    if (code != MPI_SUCCESS) fprintf(stderr, "block_service: no reply to a client: %s\n", text);
}

static void serve(const char *file, int clients) {
    char uri[URI], draft[4096];
    SURE(combray_endpoint_uri(endpoint, uri, sizeof uri));
    /* The file appears with its whole content. Who can read it can connect. */
    snprintf(draft, sizeof draft, "%s.draft", file);
    FILE *out = fopen(draft, "w");
    if (!out || fputs(uri, out) < 0 || fclose(out) != 0 || rename(draft, file) != 0) fail("cannot write the file");
    int left = 0, lost = 0;
    long checked = 0;
    while (left < clients) {
        combray_event event = next();
        part *of = event.context;
        if (event.type == COMBRAY_CONNECT_REQUEST) {
            if (!(of = calloc(1, sizeof *of))) fail("no memory");
            /* The memory is registered at the endpoint; only this client gets its name. */
            SURE(combray_memory_register(endpoint, of->bytes, BYTES, COMBRAY_MAY_READ | COMBRAY_MAY_WRITE, &of->name));
            if (combray_accept(event.connection, of) == MPI_SUCCESS) {
                reply(event.connection, &of->name, sizeof of->name);
            } else {
                /* The client was killed meanwhile; COMBRAY_LOST follows, without a context. */
                SURE(combray_memory_deregister(endpoint, &of->name));
                free(of);
            }
        } else if (event.type == COMBRAY_RECEIVED) {
            written said = {BLOCKS_OF_CLIENT, 0};
            if (event.bytes == sizeof said) memcpy(&said, event.data, sizeof said);
            /* The data was there before the message. Until it gets the answer, the client does not
             * write this block again. */
            if (said.block < BLOCKS_OF_CLIENT && sum_of(of->bytes + said.block * BLOCK) == said.sum) {
                of->checked++;
                reply(event.connection, &said, sizeof said);
            } else {
                /* It ends this client only. An error means that the connection has ended. */
                fprintf(stderr, "block_service: a wrong message or block of a client\n");
                combray_disconnect(event.connection);
            }
        } else if (event.type == COMBRAY_CLOSED || event.type == COMBRAY_LOST) {
            left++;
            lost += event.type == COMBRAY_LOST;
            if (!of) continue;
            checked += of->checked;
            /* From now on nobody can access the memory. */
            SURE(combray_memory_deregister(endpoint, &of->name));
            free(of);
        }
        SURE(combray_return(endpoint, &event));
    }
    printf("%ld blocks were right; %d clients were lost\n", checked, lost);
}

static void use(const char *file, long rounds) {
    static unsigned char block[BLOCK], copy[BLOCKS_OF_CLIENT][BLOCK], back[BLOCK];
    char uri[URI];
    combray_connection connection;
    combray_memory name;
    FILE *in;
    while (!(in = fopen(file, "r"))) usleep(1000);
    if (!fgets(uri, sizeof uri, in)) fail("the file has no URI");
    fclose(in);
    SURE(combray_connect(endpoint, uri, NULL, 0, NULL, -1, &connection));
    combray_event event = next();
    SURE(event.status);
    if (event.type != COMBRAY_CONNECTED) fail("the service has rejected the connection");
    event = next();
    if (event.type != COMBRAY_RECEIVED || event.bytes != sizeof name) fail("the service has sent no name");
    memcpy(&name, event.data, sizeof name);
    SURE(combray_return(endpoint, &event));
    srand((unsigned)getpid());
    for (long round = 0; round < rounds; round++) {
        uint32_t number = (uint32_t)rand() % BLOCKS_OF_CLIENT;
        for (int at = 0; at < BLOCK; at++) block[at] = (unsigned char)(rand() >> 8);
        memcpy(copy[number], block, BLOCK);
        written said = {number, sum_of(block)};
        /* The data, then the message; and at the same time another block is read. */
        uint32_t other = (number + 1) % BLOCKS_OF_CLIENT;
        SURE(combray_memory_write(connection, &name, number * BLOCK, block, BLOCK, &said, sizeof said, NULL, 0));
        SURE(combray_memory_read(connection, &name, other * BLOCK, back, BLOCK, NULL, COMBRAY_NOTIFY));
        for (int awaited = 2; awaited > 0; awaited--) {
            event = next();
            SURE(event.status);
            if (event.type != COMBRAY_COMPLETED && event.type != COMBRAY_RECEIVED) fail("the service has ended");
            SURE(combray_return(endpoint, &event));
        }
        if (memcmp(back, copy[other], BLOCK) != 0) fail("a block differs from what was written");
    }
    SURE(combray_disconnect(connection));
    while (event.type != COMBRAY_CLOSED && event.type != COMBRAY_LOST) event = next();
    printf("%ld rounds were right\n", rounds);
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: block_service serve FILE CLIENTS | use FILE ROUNDS\n");
        return 2;
    }
    SURE(combray_endpoint_open(NULL, &endpoint));
    if (strcmp(argv[1], "serve") == 0) serve(argv[2], atoi(argv[3]));
    else use(argv[2], atol(argv[3]));
    SURE(combray_endpoint_close(&endpoint));
    return 0;
}
