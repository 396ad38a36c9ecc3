// Wrong use of the native interface: each fault is an error code with a text that names the call,
// the argument and the value; nothing ends the program, nothing hangs, and correct messages go on.
// run: 1 2
// combray.h
#include "check.h"

#include <combray.h>
#include <limits.h>

static int value, peer;
static MPI_Request request;

// The error, and that combray_error_string returns what MPI_Error_string does.
#define EXPECT_TEXT(call, class, ...)                                                              \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        check_error(__FILE__, __LINE__, #call, code_, class,                                       \
                    (const char *const[]){NULL, ##__VA_ARGS__, NULL});                             \
        char text_[MPI_MAX_ERROR_STRING], other_[MPI_MAX_ERROR_STRING];                            \
        int length_;                                                                               \
        OK(combray_error_string(code_, text_, sizeof text_));                                      \
        OK(MPI_Error_string(code_, other_, &length_));                                             \
        CHECK(!strcmp(text_, other_), "%s\n%s", text_, other_);                                    \
    } while (0)

static void wrong_arguments(void) {
    combray_message message = COMBRAY_MESSAGE_NULL;
    char many[16];
    snprintf(many, sizeof many, "%d", check_size);
    EXPECT_TEXT(combray_begin(MPI_COMM_NULL, 0, 0, &message), MPI_ERR_COMM, "communicator",
                "MPI_COMM_NULL");
    EXPECT_TEXT(combray_begin(MPI_COMM_WORLD, check_size, 0, &message), MPI_ERR_RANK, "destination",
                many);
    EXPECT_TEXT(combray_begin(MPI_COMM_WORLD, MPI_ANY_SOURCE, 0, &message), MPI_ERR_RANK,
                "destination");
    EXPECT_TEXT(combray_begin(MPI_COMM_WORLD, 0, -7, &message), MPI_ERR_TAG, "tag", "-7");
    EXPECT_TEXT(combray_begin(MPI_COMM_WORLD, 0, MPI_ANY_TAG, &message), MPI_ERR_TAG, "tag");
    EXPECT_TEXT(combray_begin(MPI_COMM_WORLD, 0, 0, NULL), MPI_ERR_ARG, "message", "null");
    EXPECT_TEXT(combray_begin_unpack(MPI_COMM_NULL, 0, 0, &message), MPI_ERR_COMM, "communicator");
    EXPECT_TEXT(combray_begin_unpack(MPI_COMM_WORLD, -9, 0, &message), MPI_ERR_RANK, "source", "-9");
    EXPECT_TEXT(combray_begin_unpack(MPI_COMM_WORLD, 0, -9, &message), MPI_ERR_TAG, "tag", "-9");
    EXPECT_TEXT(combray_begin_unpack(MPI_COMM_WORLD, 0, 0, NULL), MPI_ERR_ARG, "message");
    CHECK(message == COMBRAY_MESSAGE_NULL, "written by a call that failed");

    combray_segment list[] = {{&value, 2}, {NULL, 5}};
    EXPECT_TEXT(combray_isend(MPI_COMM_WORLD, peer, 0, list, -1, &request), MPI_ERR_COUNT, "count",
                "-1");
    EXPECT_TEXT(combray_isend(MPI_COMM_WORLD, peer, 0, NULL, 1, &request), MPI_ERR_ARG, "segments");
    EXPECT_TEXT(combray_isend(MPI_COMM_WORLD, peer, 0, list, 2, &request), MPI_ERR_BUFFER,
                "segment 1", "5 bytes");
    EXPECT_TEXT(combray_isend(MPI_COMM_WORLD, peer, 0, list, 1, NULL), MPI_ERR_ARG, "request");
    EXPECT_TEXT(combray_isend(MPI_COMM_WORLD, peer, -2, list, 1, &request), MPI_ERR_TAG, "tag");
    EXPECT_TEXT(combray_irecv(MPI_COMM_WORLD, 77, 0, list, 1, &request), MPI_ERR_RANK, "source", "77");
    list[1] = (combray_segment){&value, SIZE_MAX - 1};
    EXPECT_TEXT(combray_irecv(MPI_COMM_WORLD, peer, 0, list, 2, &request), MPI_ERR_COUNT, "segment 1");

    char text[8];
    CHECK(combray_error_string(MPI_ERR_RANK, NULL, 8) != MPI_SUCCESS, "a null pointer");
    CHECK(combray_error_string(-5, text, sizeof text) != MPI_SUCCESS, "no code");
    memset(text, 'x', sizeof text);
    OK(combray_error_string(MPI_ERR_RANK, text, 4));
    CHECK(!strcmp(text, "MPI") && text[4] == 'x', "%.8s", text);
    OK(combray_error_string(MPI_ERR_RANK, text, 0));
    CHECK(text[0] == 'M', "nothing may be written");
}

static void wrong_messages(void) {
    combray_message sent, received, null = COMBRAY_MESSAGE_NULL, never = (combray_message)0x1234567;
    MPI_Status status;
    OK(combray_begin(MPI_COMM_SELF, 0, 0, &sent));
    OK(combray_begin_unpack(MPI_COMM_SELF, 0, 0, &received));
    for (int round = 0; round < 2; round++) {
        combray_message wrong = round ? never : null;
        const char *name = round ? "0x1234567" : "COMBRAY_MESSAGE_NULL";
        EXPECT_TEXT(combray_pack(wrong, &value, 4, COMBRAY_EXPRESS), MPI_ERR_REQUEST, "message", name);
        EXPECT_TEXT(combray_unpack(wrong, &value, 4, COMBRAY_EXPRESS), MPI_ERR_REQUEST, name);
        EXPECT_TEXT(combray_end(&wrong, NULL), MPI_ERR_REQUEST, name);
        EXPECT_TEXT(combray_end_unpack(&wrong, NULL, &status), MPI_ERR_REQUEST, name);
        EXPECT_TEXT(combray_await(wrong, &status), MPI_ERR_REQUEST, name);
        EXPECT_TEXT(combray_withdraw(&wrong), MPI_ERR_REQUEST, name);
    }
    EXPECT_TEXT(combray_end(NULL, NULL), MPI_ERR_ARG, "message");
    EXPECT_TEXT(combray_end_unpack(NULL, NULL, NULL), MPI_ERR_ARG, "message");
    EXPECT_TEXT(combray_arrived(received, NULL, &status), MPI_ERR_ARG, "flag");
    EXPECT_TEXT(combray_pack(received, &value, 4, COMBRAY_EXPRESS), MPI_ERR_REQUEST,
                "combray_begin_unpack");
    EXPECT_TEXT(combray_unpack(sent, &value, 4, COMBRAY_EXPRESS), MPI_ERR_REQUEST, "combray_begin");
    EXPECT_TEXT(combray_end(&received, NULL), MPI_ERR_REQUEST, "combray_unpack");
    EXPECT_TEXT(combray_end_unpack(&sent, NULL, &status), MPI_ERR_REQUEST, "combray_pack");
    EXPECT_TEXT(combray_withdraw(&sent), MPI_ERR_REQUEST, "combray_pack");
    EXPECT_TEXT(combray_pack(sent, &value, 4, 0), MPI_ERR_ARG, "mode", "is 0");
    EXPECT_TEXT(combray_pack(sent, &value, 4, 3), MPI_ERR_ARG, "mode", "is 3");
    EXPECT_TEXT(combray_pack(sent, NULL, 4, COMBRAY_CHEAPER), MPI_ERR_BUFFER, "address", "4 bytes");
    EXPECT_TEXT(combray_pack(sent, &value, (size_t)-4, COMBRAY_CHEAPER), MPI_ERR_COUNT, "bytes", "-4");
    EXPECT_TEXT(combray_unpack(received, NULL, 4, COMBRAY_CHEAPER), MPI_ERR_BUFFER, "address");
    EXPECT_TEXT(combray_unpack(received, &value, (size_t)-4, COMBRAY_CHEAPER), MPI_ERR_COUNT, "-4");
    EXPECT_TEXT(combray_unpack(received, &value, 4, 9), MPI_ERR_ARG, "mode", "is 9");

    // Nothing of all that was packed or unpacked.
    int number = 17, got = 0;
    OK(combray_pack(sent, &number, 4, COMBRAY_CHEAPER));
    combray_message stale = sent, stale_received = received;
    OK(combray_end(&sent, NULL));
    OK(combray_unpack(received, &got, 4, COMBRAY_EXPRESS));
    CHECK_EQ(got, 17);
    OK(combray_end_unpack(&received, NULL, &status));
    EXPECT_TEXT(combray_end(&stale, NULL), MPI_ERR_REQUEST, "freed");
    EXPECT_TEXT(combray_pack(stale, &value, 4, COMBRAY_CHEAPER), MPI_ERR_REQUEST, "freed");
    EXPECT_TEXT(combray_unpack(stale_received, &value, 4, COMBRAY_CHEAPER), MPI_ERR_REQUEST, "freed");
    EXPECT_TEXT(combray_end_unpack(&stale_received, NULL, &status), MPI_ERR_REQUEST, "freed");
    EXPECT_TEXT(combray_end(&sent, NULL), MPI_ERR_REQUEST, "COMBRAY_MESSAGE_NULL");
}

enum { LARGE = 100000 };
static char large_out[LARGE], large_in[LARGE];

// Four segments: 4 bytes, LARGE bytes, 4 bytes, 4 bytes.
static void send_four(int *numbers, MPI_Request *sending) {
    combray_message sent;
    for (int i = 0; i < 3; i++) numbers[i] = 11 * (i + 1);
    memset(large_out, 3, LARGE);
    OK(combray_begin(MPI_COMM_WORLD, peer, 4, &sent));
    OK(combray_pack(sent, &numbers[0], 4, COMBRAY_EXPRESS));
    OK(combray_pack(sent, large_out, LARGE, COMBRAY_CHEAPER));
    OK(combray_pack(sent, &numbers[1], 4, COMBRAY_CHEAPER));
    OK(combray_pack(sent, &numbers[2], 4, COMBRAY_CHEAPER));
    OK(combray_end(&sent, sending));
}

// One side passes other sizes than the other: an error without further harm.
static void other_sizes(void) {
    combray_message received;
    MPI_Request requests[2];
    MPI_Status status;
    int numbers[3], number = -1;
    long wide = -1;

    send_four(numbers, &requests[0]);
    OK(combray_begin_unpack(MPI_COMM_WORLD, peer, 4, &received));
    EXPECT_TEXT(combray_unpack(received, &wide, 8, COMBRAY_EXPRESS), MPI_ERR_TRUNCATE, "segment 0",
                "4 bytes", "8");
    CHECK(wide == -1, "the memory was touched");
    EXPECT_TEXT(combray_unpack(received, large_in, LARGE - 1, COMBRAY_EXPRESS), MPI_ERR_TRUNCATE,
                "segment 1", "100000", "99999");
    OK(combray_unpack(received, &number, 4, COMBRAY_EXPRESS));
    CHECK_EQ(number, 22);
    OK(combray_unpack(received, &number, 4, COMBRAY_EXPRESS));
    CHECK_EQ(number, 33);
    EXPECT_TEXT(combray_unpack(received, &number, 4, COMBRAY_EXPRESS), MPI_ERR_TRUNCATE, "segment 4",
                "has 4 segments");
    EXPECT_TEXT(combray_unpack(received, &number, 4, COMBRAY_CHEAPER), MPI_ERR_TRUNCATE, "segment 5");
    OK(combray_end_unpack(&received, NULL, &status));
    int count;
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK_EQ(count, 8);
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));

    // Less than was packed; then nothing at all.
    for (int unpacked = 1; unpacked >= 0; unpacked--) {
        send_four(numbers, &requests[0]);
        OK(combray_begin_unpack(MPI_COMM_WORLD, peer, 4, &received));
        if (unpacked) OK(combray_unpack(received, &number, 4, COMBRAY_CHEAPER));
        EXPECT_TEXT(combray_end_unpack(&received, NULL, &status), MPI_ERR_TRUNCATE, "has 4 segments",
                    unpacked ? "only 1" : "only 0");
        CHECK(received == COMBRAY_MESSAGE_NULL, "ended all the same");
        CHECK_EQ(status.MPI_SOURCE, peer);
        OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    }

    // Cheaper ones, unpacked before anything has come: the error is returned at the end, or by the
    // request.
    for (int with_request = 0; with_request < 2; with_request++) {
        OK(combray_begin_unpack(MPI_COMM_WORLD, peer, 4, &received));
        OK(combray_unpack(received, &number, 4, COMBRAY_CHEAPER));
        OK(combray_unpack(received, large_in, 5, COMBRAY_CHEAPER));
        OK(combray_unpack(received, &numbers[1], 4, COMBRAY_CHEAPER));
        if (with_request) OK(combray_end_unpack(&received, &requests[1], MPI_STATUS_IGNORE));
        MPI_Barrier(MPI_COMM_WORLD);
        send_four(numbers, &requests[0]);
        if (with_request) {
            MPI_Status statuses[2];
            CHECK_EQ(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
            int class = 0;
            OK(MPI_Error_class(statuses[1].MPI_ERROR, &class));
            CHECK_EQ(class, MPI_ERR_TRUNCATE);
            CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL, "both over");
        } else {
            OK(combray_unpack(received, &number, 4, COMBRAY_CHEAPER));
            EXPECT_TEXT(combray_end_unpack(&received, NULL, &status), MPI_ERR_TRUNCATE, "segment 1",
                        "100000", "5");
            CHECK_EQ(number, 33);
            OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        }
    }

    // Segments of messages that are not packed may be cut anyhow, but the room must do.
    combray_segment out[] = {{large_out, 10}}, in[] = {{large_in, 4}, {large_in + 100, 5}};
    OK(combray_isend(MPI_COMM_WORLD, peer, 4, out, 1, &requests[0]));
    OK(combray_irecv(MPI_COMM_WORLD, peer, 4, in, 2, &requests[1]));
    EXPECT_ERROR(MPI_Wait(&requests[1], &status), MPI_ERR_TRUNCATE);
    CHECK(large_in[3] == 3 && large_in[104] == 3, "what fits is there");
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
}

static void giving_up(void) {
    combray_message sent, received, other;
    MPI_Status status;
    int flag = 0;
    OK(combray_begin_unpack(MPI_COMM_WORLD, MPI_ANY_SOURCE, 6, &received));
    OK(combray_unpack(received, &value, 4, COMBRAY_CHEAPER));
    OK(combray_withdraw(&received));
    CHECK(received == COMBRAY_MESSAGE_NULL, "the variable stays");
    MPI_Barrier(MPI_COMM_WORLD);
    OK(combray_begin_unpack(MPI_COMM_WORLD, peer, 6, &received));
    OK(combray_begin_unpack(MPI_COMM_WORLD, peer, 6, &other));
    OK(combray_begin(MPI_COMM_WORLD, peer, 6, &sent));
    OK(combray_end(&sent, NULL));
    while (!flag) OK(combray_arrived(received, &flag, &status));
    EXPECT_TEXT(combray_withdraw(&received), MPI_ERR_REQUEST, "begun to arrive");
    OK(combray_withdraw(&other));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(combray_end_unpack(&received, NULL, &status));
    CHECK_EQ(status.MPI_SOURCE, peer);

    // A request of a packed message can be given up, but not cancelled.
    OK(combray_begin(MPI_COMM_WORLD, peer, 6, &sent));
    OK(combray_pack(sent, large_out, LARGE, COMBRAY_CHEAPER));
    OK(combray_end(&sent, &request));
    EXPECT_ERROR(MPI_Cancel(&request), MPI_ERR_REQUEST);
    OK(MPI_Request_free(&request));
    OK(combray_begin_unpack(MPI_COMM_WORLD, peer, 6, &received));
    OK(combray_unpack(received, large_in, LARGE, COMBRAY_EXPRESS));
    OK(combray_end_unpack(&received, &request, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&request));
    CHECK(!memcmp(large_in, large_out, LARGE), "the data");
}

int main(void) {
    combray_message message;
    char text[MPI_MAX_ERROR_STRING];
    // No error handler is called for this, so the program goes on.
    int code = combray_begin(MPI_COMM_WORLD, 0, 0, &message);
    CHECK(code != MPI_SUCCESS && combray_error_string(code, text, sizeof text) == MPI_SUCCESS &&
              strstr(text, "before MPI_Init"), "%s", text);
    check_begin();
    peer = check_size - 1 - check_rank;
    // Errors of messages for which no MPI call waits end nothing, whatever the error handler.
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    wrong_arguments();
    wrong_messages();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    other_sizes();
    giving_up();
    // A message left open at the end is the program's mistake, but causes no harm.
    OK(combray_begin(MPI_COMM_WORLD, peer, 9, &message));
    OK(combray_pack(message, large_out, LARGE, COMBRAY_CHEAPER));
    OK(combray_begin_unpack(MPI_COMM_WORLD, peer, 9, &message));
    OK(combray_unpack(message, large_in, LARGE, COMBRAY_CHEAPER));
    int failed = check_end();
    code = combray_begin(MPI_COMM_WORLD, 0, 0, &message);
    CHECK(code != MPI_SUCCESS, "after MPI_Finalize");
    return failed || check_failures;
}
