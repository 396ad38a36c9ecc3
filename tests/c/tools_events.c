// Events are reported to callbacks at the end of calls, with their elements and times; callbacks
// may call MPI; too many events are dropped and counted; nothing is reported after a registration
// was freed.
// run: 1 2
// hosts
// checkers: address
#include "check.h"

enum { MESSAGES = 5, FLOOD = 3000 };

static MPI_T_event_registration registration;
static int told, freed, dropped_calls;
static MPI_Count dropped, last_stamp;
static MPI_T_event_instance last_instance;

static int index_of(const char *name) {
    int index = -1;
    OK(MPI_T_event_get_index(name, &index));
    return index;
}

static void unexpected(MPI_T_event_instance instance, MPI_T_event_registration from,
                       MPI_T_cb_safety safety, void *user_data) {
    MPI_Count elements[4], one, stamp, now;
    int source = -1;
    CHECK(from == registration && user_data == &told, "");
    CHECK_EQ(safety, MPI_T_CB_REQUIRE_NONE);
    OK(MPI_T_event_copy(instance, elements));
    // Others may be underway to a barrier.
    if (elements[3] != sizeof told) return;
    CHECK_EQ(elements[1], 0);
    CHECK_EQ(elements[2], 40 + told);
    CHECK_EQ(elements[3], 4);
    for (int element = 0; element < 4; element++) {
        OK(MPI_T_event_read(instance, element, &one));
        CHECK_EQ(one, elements[element]);
    }
    CHECK_EQ(MPI_T_event_read(instance, 4, &one), MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_event_read(instance, 0, NULL), MPI_T_ERR_INVALID);
    OK(MPI_T_event_get_timestamp(instance, &stamp));
    OK(MPI_T_event_get_source(instance, &source));
    OK(MPI_T_source_get_timestamp(source, &now));
    CHECK(last_stamp <= stamp && stamp <= now, "%lld %lld", (long long)stamp, (long long)now);
    last_stamp = stamp;
    last_instance = instance;
    told++;
    // A callback may use MPI, which may cause events that are reported later.
    int out = 1, in = 0;
    OK(MPI_Sendrecv(&out, 1, MPI_INT, 0, 9, &in, 1, MPI_INT, 0, 9, MPI_COMM_SELF,
                    MPI_STATUS_IGNORE));
    CHECK_EQ(in, 1);
}

static void never(MPI_T_event_instance instance, MPI_T_event_registration from,
                  MPI_T_cb_safety safety, void *user_data) {
    (void)instance, (void)from, (void)safety, (void)user_data;
    CHECK(0, "a callback that need not promise so much was there");
}

static void count_freed(MPI_T_event_registration from, MPI_T_cb_safety safety, void *user_data) {
    CHECK(from == registration && user_data == &freed, "");
    CHECK_EQ(safety, MPI_T_CB_REQUIRE_NONE);
    freed++;
}

static void message_unexpected(void) {
    int value = 1;
    MPI_Info info;
    OK(MPI_T_event_handle_alloc(index_of("message_unexpected"), NULL, MPI_INFO_NULL,
                                &registration));
    CHECK_EQ(MPI_T_event_register_callback(registration, (MPI_T_cb_safety)5, MPI_INFO_NULL, NULL,
                                           unexpected),
             MPI_T_ERR_INVALID);
    OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL,
                                     NULL, never));
    OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &told,
                                     unexpected));
    OK(MPI_T_event_handle_set_info(registration, MPI_INFO_NULL));
    OK(MPI_T_event_callback_set_info(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL));
    OK(MPI_T_event_handle_get_info(registration, &info));
    OK(MPI_Info_free(&info));
    OK(MPI_T_event_callback_get_info(registration, MPI_T_CB_REQUIRE_NONE, &info));
    OK(MPI_Info_free(&info));
    for (int i = 0; i < MESSAGES; i++) OK(MPI_Send(&value, 1, MPI_INT, 0, 40 + i, MPI_COMM_SELF));
    OK(MPI_Probe(0, 40 + MESSAGES - 1, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    CHECK_EQ(told, MESSAGES);
    for (int i = 0; i < MESSAGES; i++)
        OK(MPI_Recv(&value, 1, MPI_INT, 0, 40 + i, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    // An instance is gone after its callback.
    CHECK_EQ(MPI_T_event_read(last_instance, 0, &last_stamp), MPI_T_ERR_INVALID_HANDLE);
    OK(MPI_T_event_handle_free(registration, &freed, count_freed));
    CHECK_EQ(freed, 1);
    CHECK_EQ(MPI_T_event_handle_free(registration, &freed, count_freed), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_event_set_dropped_handler(registration, NULL), MPI_T_ERR_INVALID_HANDLE);
    OK(MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_SELF));
    OK(MPI_Probe(0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    OK(MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    CHECK_EQ(told, MESSAGES);
}

static void count(MPI_T_event_instance instance, MPI_T_event_registration from,
                  MPI_T_cb_safety safety, void *user_data) {
    (void)instance, (void)from, (void)safety;
    ++*(int *)user_data;
}

static void note_dropped(MPI_Count how_many, MPI_T_event_registration from, int source,
                         MPI_T_cb_safety safety, void *user_data) {
    (void)safety;
    CHECK(from == registration && source == 0 && user_data != NULL, "");
    dropped += how_many;
    dropped_calls++;
}

static void communicators(void) {
    MPI_T_event_registration opened, closed;
    MPI_Comm copy;
    int opens = 0, closes = 0;
    OK(MPI_T_event_handle_alloc(index_of("context_opened"), NULL, MPI_INFO_NULL, &opened));
    OK(MPI_T_event_handle_alloc(index_of("context_closed"), NULL, MPI_INFO_NULL, &closed));
    OK(MPI_T_event_register_callback(opened, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &opens, count));
    OK(MPI_T_event_register_callback(closed, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &closes, count));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    CHECK(opens > 0, "%d", opens);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    CHECK(closes > 0, "%d", closes);
    OK(MPI_Comm_free(&copy));
    OK(MPI_T_event_handle_free(opened, NULL, NULL));
    OK(MPI_T_event_handle_free(closed, NULL, NULL));
}

// More messages than are kept arrive during one call.
static void flood(void) {
    int value = 0, counted = 0, arrived = 0;
    MPI_Request request;
    OK(MPI_T_event_handle_alloc(index_of("message_unexpected"), NULL, MPI_INFO_NULL,
                                &registration));
    OK(MPI_T_event_set_dropped_handler(registration, note_dropped));
    if (check_rank == 1) {
        OK(MPI_Recv(&value, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < FLOOD; i++) OK(MPI_Send(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD));
    }
    if (check_rank == 0) {
        OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL,
                                         &counted, count));
        OK(MPI_Send(&value, 1, MPI_INT, 1, 6, MPI_COMM_WORLD));
        usleep(100000);
        // All of them come before this one, in one wait.
        OK(MPI_Irecv(&value, 1, MPI_INT, 1, 8, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        // The other process may be in MPI_Finalize already.
        CHECK(counted + dropped >= FLOOD && counted + dropped <= FLOOD + 2, "%d + %lld", counted,
              (long long)dropped);
        CHECK((dropped > 0) == (dropped_calls > 0), "%d", dropped_calls);
        for (; arrived < FLOOD; arrived++)
            OK(MPI_Recv(&value, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Send(&value, 1, MPI_INT, 0, 8, MPI_COMM_WORLD));
    }
    OK(MPI_T_event_handle_free(registration, NULL, NULL));
}

int main(void) {
    int provided;
    check_begin();
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    if (check_is_combray) {
        message_unexpected();
        OK(MPI_Barrier(MPI_COMM_WORLD));
        communicators();
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (check_size > 1) flood();
    }
    OK(MPI_T_finalize());
    return check_end();
}
