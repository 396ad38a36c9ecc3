// Files whose system calls transfer less than requested and are interrupted: transfers are complete
// nevertheless (files_random.h). If the device fails or is full, the call returns an error, and the
// data that it reports as written is in the file.
// run: 1 2 3 5
// preload: files_faulty.c
// one machine: the library with the faults is loaded here
#define _GNU_SOURCE
#include "files_random.h"
#include <dlfcn.h>

enum { FAULTS = 120 };

static void *tool(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    REQUIRE(found != NULL, "%s: the library with the faults is not loaded", name);
    return found;
}

static void begin(unsigned long seed, long room, long bad) {
    void (*function)(unsigned long, long, long);
    *(void **)&function = tool("files_faulty_begin");
    function(seed, room, bad);
}

static void end(void) {
    void (*function)(void);
    *(void **)&function = tool("files_faulty_end");
    function();
}

static void expect_faults(const char *name) {
    long found = *(long *)tool(name);
    OK(MPI_Allreduce(MPI_IN_PLACE, &found, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    CHECK(found > 0, "%s: there were none", name);
}

// All write their own bytes where there is no space from some byte on, or one byte cannot be
// written. Without a fault before its last byte a process may have written all.
static void failing_write(Random *random, int round) {
    static unsigned char bytes[2 * SPAN + 4], back[SPAN];
    int way = random_below(random, 8), spread = random_below(random, 2);
    int is_full = random_below(random, 2), at_fault = random_below(random, SPAN / 4), count;
    Random views = random_from(random_next(random));
    View view = random_view(&views, check_rank, 1);
    // Drawn from a clone of the random numbers that all share.
    int length = random_below(&views, view.length / 2 + 1) / 2 * 2, touches = 0;
    memset(bytes, 0, sizeof bytes);
    for (int at = 0; at < length; at++) {
        bytes[place_of(at, spread)] = value(round, check_rank, at);
        int offset = view.offsets[at];
        touches |= is_full ? offset >= at_fault : offset == at_fault;
    }
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_set_view(file, view.displacement, MPI_BYTE, view.type, "native", MPI_INFO_NULL));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    begin(random_next(random) + 7919u * (unsigned)check_rank, is_full ? at_fault : -1,
          is_full ? -1 : at_fault);
    MPI_Datatype type = spread ? gaps : MPI_BYTE;
    int items = spread ? length / 2 : length, code;
    MPI_Status status;
    MPI_Request request;
    switch (way) {
    case 0: code = MPI_File_write_at(file, 0, bytes, items, type, &status); break;
    case 1: code = MPI_File_write(file, bytes, items, type, &status); break;
    case 2:
    case 3: code = MPI_File_write_at_all(file, 0, bytes, items, type, &status); break;
    case 4:
    case 5:
        OK(MPI_File_iwrite_at_all(file, 0, bytes, items, type, &request));
        code = MPI_Wait(&request, &status);
        break;
    default:
        OK(MPI_File_iwrite_at(file, 0, bytes, items, type, &request));
        code = MPI_Wait(&request, &status);
    }
    end();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    int class = MPI_SUCCESS, writes_alone = way < 2 || way > 5;
    OK(MPI_Error_class(code, &class));
    CHECK(class == MPI_SUCCESS || class == (is_full ? MPI_ERR_NO_SPACE : MPI_ERR_IO),
          "round %d, way %d: class %d", round, way, class);
    CHECK(!touches || code != MPI_SUCCESS, "round %d, way %d: nothing is said of the fault", round,
          way);
    CHECK(touches || !writes_alone || code == MPI_SUCCESS, "round %d, way %d: fails without a fault",
          round, way);
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK(code != MPI_SUCCESS ? count <= length : count == length, "round %d: %d of %d", round,
          count, length);
    OK(MPI_File_read_at(file, 0, back, length, MPI_BYTE, &status));
    for (int at = 0; at < count; at++) {
        int wanted = bytes[place_of(at, spread)];
        REQUIRE(back[at] == wanted, "round %d, way %d: byte %d is %d, said to be written as %d",
                round, way, at, back[at], wanted);
    }
    OK(MPI_Type_free(&view.type));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void failing_writes(Random *random) {
    for (int round = 0; round < CHECK_ROUNDS(FAULTS); round++) failing_write(random, round);
}

static void one(void) {
    Random faults = random_from(80 + 1000 * (uint64_t)check_rank);
    begin(random_next(&faults), -1, -1);
    in_all_settings(78, random_rounds);
    end();
    in_all_settings(79, failing_writes);
}

int main(int argc, char **argv) {
    check_begin();
    for_seeds(argc, argv, one);
    expect_faults("files_faulty_short");
    expect_faults("files_faulty_interrupted");
    expect_faults("files_faulty_failed");
    return check_end();
}
