// Puts and gets between memory of devices of two processes of one machine: the origin copies by a
// handle of the target's memory, while the target does nothing. Where there is no handle, or the
// memory of the origin is the processor's, messages do the same.
// run: 2
// timeout: 120
// one machine: handles of memory are valid on one machine
// preload: libcuda.so.1.c
#include "devices.h"

enum { INTEGERS = 60000, GAP = 3 };

static int value_of(int rank, int round, int index) { return rank * 1000003 + round * 7919 + index; }

// Whether a handle of memory of the kind can be had, as the driver's documentation says.
static int is_shared(int kind) {
#ifdef HANDLES_OF_HIP
    return kind == DEVICE || kind == SECOND_DEVICE;
#endif
    return kind == DEVICE || kind == SECOND_DEVICE || kind == MAPPED || kind == SHARED_POOL;
}

// The scenarios of devices set these.
static int may_refuse(void) {
    return !are_counted() || getenv("FAKE_DEVICE_FAIL") || getenv("FAKE_DEVICE_PEERS") || getenv("COMBRAY_SINGLE_COPY");
}

// Rank 0 puts and gets `count` integers in every `stride`-th element of its memory, from place
// `place` on of the memory of rank 1.
static void access_part(MPI_Win window, int kind, void *target, int target_kind, int count, int stride, int place,
                        int round) {
    static int values[INTEGERS], seen[INTEGERS];
    MPI_Datatype type;
    MPI_Type_vector(count, 1, stride, MPI_INT, &type);
    MPI_Type_commit(&type);
    size_t room = (size_t)count * stride * sizeof(int);
    void *memory = device_memory(kind, room);
    for (int i = 0; i < count * stride; i++) values[i] = value_of(0, round, i);
    device_set(kind, memory, values, room);
    for (int i = 0; i < INTEGERS; i++) values[i] = value_of(1, round, i);
    device_set(target_kind, target, values, sizeof values);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window));
        long before = counts_of_devices().direct;
        OK(MPI_Put(memory, 1, type, 1, place, count, MPI_INT, window));
        OK(MPI_Win_flush(1, window));
        long put = counts_of_devices().direct - before;
        OK(MPI_Get(memory, 1, type, 1, INTEGERS - count, count, MPI_INT, window));
        OK(MPI_Win_unlock(1, window));
        long both = counts_of_devices().direct - before;
        // An operation with a mailbox is tried now and then, for up to 8 KiB.
        int is_direct = is_on_device(kind) && kind != MANAGED && is_shared(target_kind) && count > 2048;
        if (is_direct && !may_refuse())
            CHECK(put > 0 && both > put, "%d integers between %s and %s: %ld copies of the origin's device for the put, "
                  "%ld for both", count, kind_names[kind], kind_names[target_kind], put, both);
        if (!is_shared(target_kind) || !is_on_device(kind)) CHECK_EQ(both, 0);
        device_get(kind, seen, memory, room);
        for (int i = 0; i < count * stride; i++) {
            int at = INTEGERS - count + i / stride, is_new = at >= place && at < place + count;
            int got = is_new ? value_of(0, round, (at - place) * stride) : value_of(1, round, at);
            int expected = i % stride ? value_of(0, round, i) : got;
            if (seen[i] == expected) continue;
            CHECK(0, "get of %d from %s to %s: integer %d is %d, not %d", count, kind_names[target_kind],
                  kind_names[kind], i, seen[i], expected);
            break;
        }
    }
    // Rank 1 has done nothing meanwhile but wait here.
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 1) {
        device_get(target_kind, seen, target, sizeof seen);
        for (int i = 0; i < INTEGERS; i++) {
            int is_new = i >= place && i < place + count;
            int expected = is_new ? value_of(0, round, (i - place) * stride) : value_of(1, round, i);
            if (seen[i] == expected) continue;
            CHECK(0, "put of %d from %s to %s: integer %d is %d, not %d", count, kind_names[kind], kind_names[target_kind],
                  i, seen[i], expected);
            break;
        }
    }
    device_free(kind, memory);
    MPI_Type_free(&type);
}

static void windows_of(int target_kind, int is_dynamic) {
    static const int counts[] = {1, 200, 5000, INTEGERS / GAP};
    size_t bytes = INTEGERS * sizeof(int);
    // The window begins inside of its allocation.
    char *allocation = device_memory(target_kind, bytes + 512);
    void *target = allocation + 256;
    MPI_Win window;
    MPI_Aint base = 0;
    if (is_dynamic) {
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window));
        OK(MPI_Win_attach(window, target, bytes));
        MPI_Get_address(target, &base);
        OK(MPI_Bcast(&base, 1, MPI_AINT, 1, MPI_COMM_WORLD));
    } else {
        OK(MPI_Win_create(target, bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    }
    if (is_dynamic) {
        // Displacements are addresses: a put and a get of one length.
        static int values[INTEGERS];
        void *memory = device_memory(DEVICE, bytes);
        for (int i = 0; i < INTEGERS; i++) values[i] = value_of(check_rank, 1, i);
        device_set(check_rank == 0 ? DEVICE : target_kind, check_rank == 0 ? memory : target, values, bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        if (check_rank == 0) {
            long before = counts_of_devices().direct;
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window));
            OK(MPI_Put(memory, INTEGERS / 2, MPI_INT, 1, base, INTEGERS / 2, MPI_INT, window));
            OK(MPI_Win_flush(1, window));
            OK(MPI_Get(memory, INTEGERS, MPI_INT, 1, base, INTEGERS, MPI_INT, window));
            OK(MPI_Win_unlock(1, window));
            long direct = counts_of_devices().direct - before;
            if (is_shared(target_kind) && !may_refuse()) CHECK_EQ(direct, 2);
            device_get(DEVICE, values, memory, bytes);
            int wrong = 0;
            for (int i = 0; i < INTEGERS; i++) wrong += values[i] != value_of(i >= INTEGERS / 2, 1, i);
            CHECK(wrong == 0, "attached %s: %d integers are wrong", kind_names[target_kind], wrong);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        device_free(DEVICE, memory);
        OK(MPI_Win_detach(window, target));
    } else {
        for (int kind = 0; kind < KINDS; kind++)
            for (int which = 0; which < 4; which++)
                for (int stride = 1; stride <= GAP; stride += GAP - 1)
                    access_part(window, kind, target, target_kind, counts[which], stride, 100, kind * 10 + which);
    }
    OK(MPI_Win_free(&window));
    device_free(target_kind, allocation);
}

int main(void) {
    check_begin();
    devices_begin();
    device_counts before = counts_of_devices();
    for (int kind = 1; kind < KINDS; kind++)
        for (int is_dynamic = 0; is_dynamic < 2; is_dynamic++) windows_of(kind, is_dynamic);
    // Windows that come and go leave nothing.
    for (int i = 0; i < 100; i++) {
        int *memory = device_memory(DEVICE, 4 * INTEGERS);
        MPI_Win window;
        OK(MPI_Win_create(memory, 4 * INTEGERS, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
        OK(MPI_Win_fence(0, window));
        if (check_rank == 0) OK(MPI_Put(memory, INTEGERS, MPI_INT, 1, 0, INTEGERS, MPI_INT, window));
        OK(MPI_Win_fence(0, window));
        OK(MPI_Win_free(&window));
        device_free(DEVICE, memory);
    }
    device_counts after = counts_of_devices();
    CHECK(after.imports <= 64, "%ld handles are open", after.imports);
    CHECK(after.events - before.events <= 64, "there are %ld events", after.events);
    return check_end();
}
