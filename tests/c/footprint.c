// What a process of a job costs in memory: prints a line "name bytes" for each row of the table in
// docs/user/scale.md, the largest of all ranks. tests/footprint runs it and compares. Arguments:
// "idle" prints the first row alone, without communication; "far" puts each rank on a machine of
// its own, so that messages go over the network.
#include "check.h"

enum { ROWS_MAX = 16, COMMUNICATORS = 20, GROUPS = 2000, WINDOWS = 10, WINDOW_BYTES = 4096, ROUNDS = 100 };

static const char *names[ROWS_MAX];
static double bytes[ROWS_MAX];
static int rows;

// Returns the bytes that this process costs the machine: its own memory, its share of memory that
// it has in common with others, and its page tables.
static double footprint(void) {
    double sum = 0;
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(i == 0 ? "/proc/self/smaps_rollup" : "/proc/self/status", "r");
        char line[200];
        long kib;
        CHECK(file, "the kernel reports memory");
        while (file && fgets(line, sizeof line, file))
            if (sscanf(line, "Pss_Anon: %ld", &kib) == 1 || sscanf(line, "Pss_Shmem: %ld", &kib) == 1
                || sscanf(line, "VmPTE: %ld", &kib) == 1)
                sum += 1024.0 * kib;
        if (file) fclose(file);
    }
    return sum;
}

static double begun_at;

static void begin(void) {
    OK(MPI_Barrier(MPI_COMM_WORLD));
    begun_at = footprint();
}

// What was done since `begin` costs this much for each of `count` objects.
static void end(const char *name, int count, double own) {
    OK(MPI_Barrier(MPI_COMM_WORLD));
    names[rows] = name;
    bytes[rows++] = (footprint() - begun_at) / count - own;
}

static void talk_to_all(void) {
    int out = check_rank, in;
    for (int step = 1; step < check_size; step++) {
        int to = (check_rank + step) % check_size, from = (check_rank + check_size - step) % check_size;
        OK(MPI_Sendrecv(&out, 1, MPI_INT, to, step, &in, 1, MPI_INT, from, step, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(in, from);
    }
}

static MPI_Comm made[3][COMMUNICATORS];

static void communicators(void) {
    int extent = check_size, periodic = 1, one = 1, sum;
    // The world gets its board, which making communicators uses.
    for (int i = 0; i < ROUNDS; i++) OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    begin();
    for (int i = 0; i < COMMUNICATORS; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &made[0][i]));
    end("dup", COMMUNICATORS, 0);
    begin();
    for (int i = 0; i < COMMUNICATORS; i++) OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &made[1][i]));
    end("split", COMMUNICATORS, 0);
    begin();
    for (int i = 0; i < COMMUNICATORS; i++) OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &extent, &periodic, 0, &made[2][i]));
    end("cart", COMMUNICATORS, 0);
}

// After some collective operations the members of a communicator on one machine share a board.
static void boards(void) {
    int one = 1, sum;
    begin();
    for (int i = 0; i < COMMUNICATORS; i++) OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made[0][i]));
    end("board", COMMUNICATORS, 0);
}

static void groups(void) {
    static MPI_Group group[GROUPS];
    MPI_Group world;
    int range[1][3] = {{0, check_size - 1, 2}};
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    begin();
    for (int i = 0; i < GROUPS; i++) OK(MPI_Group_range_incl(world, 1, range, &group[i]));
    end("group", GROUPS, 0);
    for (int i = 0; i < GROUPS; i++) OK(MPI_Group_free(&group[i]));
    OK(MPI_Group_free(&world));
}

static void windows(void) {
    static MPI_Win window[WINDOWS];
    static char memory[WINDOWS][WINDOW_BYTES];
    memset(memory, 1, sizeof memory);
    begin();
    for (int i = 0; i < WINDOWS; i++)
        OK(MPI_Win_create(memory[i], WINDOW_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window[i]));
    end("window", WINDOWS, 0);
    for (int i = 0; i < WINDOWS; i++) OK(MPI_Win_free(&window[i]));
}

static void files(void) {
    static MPI_File file[WINDOWS];
    long number = getpid();
    OK(MPI_Bcast(&number, 1, MPI_LONG, 0, MPI_COMM_WORLD));
    begin();
    for (int i = 0; i < WINDOWS; i++) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/footprint-%ld-%d", number, i);
        OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                         MPI_INFO_NULL, &file[i]));
    }
    end("file", WINDOWS, 0);
    for (int i = 0; i < WINDOWS; i++) OK(MPI_File_close(&file[i]));
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "", *rank = getenv("COMBRAY_RANK");
    int is_far = !strcmp(how, "far");
    if (is_far && rank) setenv("COMBRAY_NODE", rank, 1);
    OK(MPI_Init(NULL, NULL));
    names[rows] = "idle";
    bytes[rows++] = footprint();
    if (!strcmp(how, "idle")) {
        // No other process of the job exists, so this one ends without MPI_Finalize.
        printf("idle %.0f\n", bytes[0]);
        fflush(stdout);
        _exit(check_failures != 0);
    }
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &check_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &check_size));
    begin();
    talk_to_all();
    end(is_far ? "far" : "near", check_size - 1, 0);
    if (!is_far) {
        communicators();
        boards();
        groups();
        windows();
        files();
    }
    double largest[ROWS_MAX];
    OK(MPI_Reduce(bytes, largest, rows, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD));
    for (int i = 0; check_rank == 0 && i < rows; i++) printf("%s %.0f\n", names[i], largest[i]);
    for (int kind = 0; !is_far && kind < 3; kind++)
        for (int i = 0; i < COMMUNICATORS; i++) OK(MPI_Comm_free(&made[kind][i]));
    OK(MPI_Finalize());
    return check_failures != 0;
}
