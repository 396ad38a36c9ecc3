// Random transfers of all processes on one file against a model of its bytes: views with holes,
// explicit offsets, individual and shared pointers, alone, together and in order, blocking,
// nonblocking and split. In every round the processes write disjoint bytes, or, in atomic mode, the
// same ones, then read any bytes.
#include "check.h"

enum { SPAN = 6000, ROUNDS = 60, RUNS_MAX = 6 };

static unsigned char model[SPAN * 2];
static MPI_File file;

typedef struct {
    MPI_Datatype type;
    MPI_Offset displacement;
    // The offsets of the first bytes of the stream.
    int offsets[SPAN], length;
} View;

// A view that shows process `rank` its own cells only, or any bytes.
static View random_view(Random *random, int rank, int own) {
    View view = {.displacement = random_below(random, 50)};
    int cell = 1 + random_below(random, own ? 40 : 9), runs = 1 + random_below(random, RUNS_MAX);
    int lengths[RUNS_MAX], places[RUNS_MAX], end = 0;
    int size = own ? check_size : 1 + random_below(random, 3), mine = own ? rank : 0;
    for (int run = 0; run < runs; run++) {
        // Cells of all processes lie side by side; each run is a part of a cell.
        int hole = random_below(random, cell);
        lengths[run] = 1 + random_below(random, cell - hole);
        places[run] = end + mine * cell + hole;
        end += size * cell + (own ? 0 : random_below(random, 5));
    }
    MPI_Datatype indexed;
    OK(MPI_Type_indexed(runs, lengths, places, MPI_BYTE, &indexed));
    OK(MPI_Type_create_resized(indexed, 0, end, &view.type));
    OK(MPI_Type_commit(&view.type));
    OK(MPI_Type_free(&indexed));
    for (int tile = 0; view.length < SPAN && (tile + 1) * end + view.displacement < SPAN; tile++)
        for (int run = 0; run < runs; run++)
            for (int i = 0; i < lengths[run] && view.length < SPAN; i++)
                view.offsets[view.length++] = view.displacement + tile * end + places[run] + i;
    return view;
}

// Buffers are plain bytes, or every other pair of bytes.
static MPI_Datatype gaps;

static void transfer(int writes, int way, unsigned char *bytes, int from, int length, int spread,
                     MPI_Status *status) {
    MPI_Datatype type = spread ? gaps : MPI_BYTE;
    int count = spread ? length / 2 : length;
    MPI_Request request;
    if (way % 2) OK(MPI_File_seek(file, from, MPI_SEEK_SET));
    switch (way + 10 * writes) {
    case 0: OK(MPI_File_read_at(file, from, bytes, count, type, status)); return;
    case 1: OK(MPI_File_read(file, bytes, count, type, status)); return;
    case 2: OK(MPI_File_read_at_all(file, from, bytes, count, type, status)); return;
    case 3: OK(MPI_File_read_all(file, bytes, count, type, status)); return;
    case 4: OK(MPI_File_iread_at(file, from, bytes, count, type, &request)); break;
    case 5: OK(MPI_File_iread_all(file, bytes, count, type, &request)); break;
    case 6:
        OK(MPI_File_read_at_all_begin(file, from, bytes, count, type));
        OK(MPI_File_read_at_all_end(file, bytes, status));
        return;
    case 7: OK(MPI_File_iread(file, bytes, count, type, &request)); break;
    case 10: OK(MPI_File_write_at(file, from, bytes, count, type, status)); return;
    case 11: OK(MPI_File_write(file, bytes, count, type, status)); return;
    case 12: OK(MPI_File_write_at_all(file, from, bytes, count, type, status)); return;
    case 13: OK(MPI_File_write_all(file, bytes, count, type, status)); return;
    case 14: OK(MPI_File_iwrite_at(file, from, bytes, count, type, &request)); break;
    case 15: OK(MPI_File_iwrite_all(file, bytes, count, type, &request)); break;
    case 16:
        OK(MPI_File_write_at_all_begin(file, from, bytes, count, type));
        OK(MPI_File_write_at_all_end(file, bytes, status));
        return;
    default: OK(MPI_File_iwrite(file, bytes, count, type, &request)); break;
    }
    OK(MPI_Wait(&request, status));
}

// Whether no other process takes part.
static int is_alone(int way) { return way < 2 || way == 4 || way == 7; }

static unsigned char value(int round, int rank, int at) {
    return (unsigned char)(1 + (round * 31 + rank * 17 + at * 7) % 255);
}

static int place_of(int at, int spread) { return spread ? at / 2 * 4 + at % 2 : at; }

// All write their own bytes; each can compute what all write.
static void write_round(Random *random, int round) {
    static unsigned char bytes[2 * SPAN + 4];
    int way = random_below(random, 8), spread = random_below(random, 2);
    Random views = random_from(random_next(random));
    View mine = {0};
    for (int rank = 0; rank < check_size; rank++) {
        // Equal numbers for each rank: cells must lie side by side.
        Random same = views;
        View view = random_view(&same, rank, 1);
        int most = view.length / 2, from = random_below(&same, most + 1);
        int length = random_below(&same, most + 1) / 2 * 2;
        for (int at = 0; at < length; at++)
            model[view.offsets[from + at]] = value(round, rank, at);
        if (rank != check_rank) {
            OK(MPI_Type_free(&view.type));
            continue;
        }
        mine = view;
        memset(bytes, 0, sizeof bytes);
        for (int at = 0; at < length; at++) bytes[place_of(at, spread)] = value(round, rank, at);
        OK(MPI_File_set_view(file, view.displacement, MPI_BYTE, view.type, "native",
                             MPI_INFO_NULL));
        // Alone, some write in many pieces, while others write all at once.
        int piece = is_alone(way) && random_below(&same, 3) == 0 ? 2 + random_below(&same, 8) * 2 : SPAN;
        for (int at = 0; at < length || at == 0; at += piece) {
            MPI_Status status;
            int count, now = length - at < piece ? length - at : piece;
            transfer(1, way, bytes + place_of(at, spread), from + at, now, spread, &status);
            OK(MPI_Get_count(&status, MPI_BYTE, &count));
            CHECK_EQ(count, now);
        }
    }
    OK(MPI_Type_free(&mine.type));
    OK(MPI_File_sync(file));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_sync(file));
}

static void read_round(Random *random, int round) {
    static unsigned char bytes[2 * SPAN + 4];
    int way = random_below(random, 8), spread = random_below(random, 2);
    Random own = random_from(random_next(random) + 1000 * check_rank);
    View view = random_view(&own, check_rank, 0);
    int most = view.length / 2, from = random_below(&own, most + 1);
    int length = random_below(&own, most + 1) / 2 * 2, count;
    memset(bytes, 0, sizeof bytes);
    OK(MPI_File_set_view(file, view.displacement, MPI_BYTE, view.type, "native", MPI_INFO_NULL));
    MPI_Status status;
    transfer(0, way, bytes, from, length, spread, &status);
    MPI_Offset size;
    OK(MPI_File_get_size(file, &size));
    int there = 0;
    while (there < length && view.offsets[from + there] < size) there++;
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK_EQ(count, there);
    int wrong = 0;
    for (int at = 0; at < length && !wrong; at++) {
        unsigned char expected = at < there ? model[view.offsets[from + at]] : 0;
        wrong = bytes[place_of(at, spread)] != expected;
        CHECK(!wrong, "round %d, way %d: byte %d at %d is %d, expected %d", round, way, at,
              view.offsets[from + at], bytes[place_of(at, spread)], expected);
    }
    OK(MPI_Type_free(&view.type));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

// The result of overlapping writes of several processes must be that of some sequential order:
// among the writes that remain, there is always one that no other has overwritten.
static void check_some_order(int round, const int *from, const int *length, const int *winners,
                             int span) {
    int gone[64] = {0}, left = check_size;
    for (int found = 1; found;) {
        found = 0;
        for (int rank = 0; rank < check_size; rank++) {
            // The last of the remaining writes: no other has overwritten it.
            int is_last = !gone[rank];
            for (int at = from[rank]; is_last && at < from[rank] + length[rank] && at < span; at++)
                is_last = winners[at] == rank || gone[winners[at]];
            if (is_last) gone[rank] = found = 1, left--;
        }
    }
    CHECK(left == 0, "round %d: %d processes have written in no order", round, left);
}

// Process `rank` writes its own number all over its part.
static unsigned char sign_of(int rank) { return (unsigned char)(101 + rank); }

// In atomic mode all write parts that overlap.
static void overlapping_round(Random *random, int round) {
    static unsigned char bytes[2 * SPAN + 4];
    static int winners[SPAN];
    int from[64], length[64], spread = random_below(random, 2), way = random_below(random, 8);
    View view = random_view(random, 0, 0);
    for (int rank = 0; rank < check_size; rank++) {
        from[rank] = random_below(random, view.length / 2 + 1);
        length[rank] = random_below(random, view.length / 2 + 1) / 2 * 2;
    }
    OK(MPI_File_set_atomicity(file, 1));
    OK(MPI_File_set_view(file, view.displacement, MPI_BYTE, view.type, "native", MPI_INFO_NULL));
    memset(bytes, sign_of(check_rank), sizeof bytes);
    MPI_Status status;
    int count;
    transfer(1, way, bytes, from[check_rank], length[check_rank], spread, &status);
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK_EQ(count, length[check_rank]);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_read_at(file, 0, bytes, view.length, MPI_BYTE, &status));
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    for (int at = 0; at < view.length; at++) {
        int covered = 0;
        winners[at] = -1;
        for (int rank = 0; rank < check_size; rank++) {
            if (at < from[rank] || at >= from[rank] + length[rank]) continue;
            covered = 1;
            if (at < count && bytes[at] == sign_of(rank)) winners[at] = rank;
        }
        if (!covered) continue;
        REQUIRE(winners[at] >= 0, "round %d: byte %d of the stream is %d, of nobody", round, at,
                bytes[at]);
        model[view.offsets[at]] = bytes[at];
    }
    check_some_order(round, from, length, winners, view.length);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Type_free(&view.type));
}

// All write behind the shared pointer: in the order of their ranks, or, of equal lengths, in any.
static void shared_round(Random *random, int round) {
    static unsigned char bytes[SPAN], back[SPAN];
    int way = random_below(random, 6), total = 0, mine = 0, lengths[64];
    View view = random_view(random, 0, 0);
    int from = random_below(random, view.length / 2 + 1);
    int equal = random_below(random, view.length / 2 / check_size + 1);
    int is_ordered = way < 3;
    for (int rank = 0; rank < check_size; rank++) {
        lengths[rank] = is_ordered ? random_below(random, equal + 1) : equal;
        mine += rank < check_rank ? lengths[rank] : 0;
        total += lengths[rank];
    }
    int length = lengths[check_rank], count;
    for (int at = 0; at < length; at++) bytes[at] = value(round, check_rank, at);
    OK(MPI_File_set_view(file, view.displacement, MPI_BYTE, view.type, "native", MPI_INFO_NULL));
    OK(MPI_File_seek_shared(file, from, MPI_SEEK_SET));
    MPI_Status status;
    MPI_Request request;
    switch (way) {
    case 0: OK(MPI_File_write_ordered(file, bytes, length, MPI_BYTE, &status)); break;
    case 1:
    case 2:
        OK(MPI_File_write_ordered_begin(file, bytes, length, MPI_BYTE));
        OK(MPI_File_write_ordered_end(file, bytes, &status));
        break;
    case 3: OK(MPI_File_write_shared(file, bytes, length, MPI_BYTE, &status)); break;
    default:
        OK(MPI_File_iwrite_shared(file, bytes, length, MPI_BYTE, &request));
        OK(MPI_Wait(&request, &status));
    }
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK_EQ(count, length);
    OK(MPI_File_sync(file));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_sync(file));
    MPI_Offset pointer;
    OK(MPI_File_get_position_shared(file, &pointer));
    CHECK_EQ((int)pointer, from + total);
    OK(MPI_File_read_at(file, from, back, total, MPI_BYTE, &status));
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK_EQ(count, total);
    if (is_ordered) {
        CHECK(memcmp(back + mine, bytes, length) == 0, "round %d: not in the order of ranks", round);
    } else {
        int places = 0;
        for (int at = 0; at + length <= total && length > 0; at += length)
            places += memcmp(back + at, bytes, length) == 0;
        CHECK(length == 0 || places > 0, "round %d: what was written is nowhere", round);
    }
    for (int at = 0; at < total; at++) model[view.offsets[from + at]] = back[at];
    OK(MPI_Barrier(MPI_COMM_WORLD));
    // A process that reads in the order of ranks gets its data again.
    OK(MPI_File_seek_shared(file, from, MPI_SEEK_SET));
    memset(bytes, 0, sizeof bytes);
    OK(MPI_File_read_ordered(file, bytes, length, MPI_BYTE, &status));
    CHECK(memcmp(back + mine, bytes, length) == 0, "round %d: read in another order", round);
    OK(MPI_Type_free(&view.type));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void random_rounds(Random *random) {
    for (int round = 0; round < CHECK_ROUNDS(ROUNDS); round++) {
        OK(MPI_File_set_atomicity(file, random_below(random, 5) == 0));
        switch (random_below(random, 6)) {
        case 0: overlapping_round(random, round); break;
        case 1: shared_round(random, round); break;
        default: write_round(random, round);
        }
        read_round(random, round);
    }
}

// Small windows, several aggregators, no aggregators, as it is, holes always written, holes never
// written and each run read separately.
static void open_in_setting(const char *name, int setting) {
    MPI_Info info;
    OK(MPI_Info_create(&info));
    const char *choices[] = {"enable", "enable", "disable", "automatic", "automatic",
                             "automatic"};
    const char *choice = choices[setting];
    OK(MPI_Info_set(info, "romio_cb_write", choice));
    OK(MPI_Info_set(info, "romio_cb_read", choice));
    OK(MPI_Info_set(info, "cb_buffer_size", setting == 0 ? "300" : "100000"));
    OK(MPI_Info_set(info, "cb_nodes", setting == 1 ? "3" : "0"));
    OK(MPI_Info_set(info, "striping_unit", "64"));
    if (setting == 4) {
        OK(MPI_Info_set(info, "romio_ds_write", "enable"));
        OK(MPI_Info_set(info, "ind_wr_buffer_size", "700"));
        OK(MPI_Info_set(info, "ind_rd_buffer_size", "500"));
    }
    if (setting == 5) {
        OK(MPI_Info_set(info, "romio_ds_write", "disable"));
        OK(MPI_Info_set(info, "romio_ds_read", "disable"));
    }
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
    OK(MPI_Info_free(&info));
    OK(MPI_File_set_size(file, 0));
    memset(model, 0, sizeof model);
}

enum { SETTINGS = 6 };

static void agree_on_name(char *name, size_t size) {
    const char *folder = getenv("TMPDIR");
    snprintf(name, size, "%s/files-random-%d", folder ? folder : "/tmp", (int)getpid());
    MPI_Bcast(name, (int)size, MPI_CHAR, 0, MPI_COMM_WORLD);
}

// Rounds in all settings, from a seed that CHECK_SEED overrides.
static void in_all_settings(uint64_t seed, void (*rounds)(Random *)) {
    char name[256];
    agree_on_name(name, sizeof name);
    OK(MPI_Type_create_resized(MPI_SHORT, 0, 4, &gaps));
    OK(MPI_Type_commit(&gaps));
    Random random = random_from(seed);
    for (int setting = 0; setting < SETTINGS; setting++) {
        open_in_setting(name, setting);
        rounds(&random);
        OK(MPI_File_close(&file));
    }
    if (check_rank == 0) OK(MPI_File_delete(name, MPI_INFO_NULL));
    OK(MPI_Type_free(&gaps));
}

// The words of the command line are the first seed and the number of seeds, or none: then the seed
// is CHECK_SEED, unchanged. Each failing seed is reported, and whether all succeeded.
static void for_seeds(int argc, char **argv, void (*one)(void)) {
    if (argc < 3) {
        one();
        return;
    }
    int failed = 0, count = atoi(argv[2]);
    for (int i = 0; i < count; i++) {
        char seed[32];
        snprintf(seed, sizeof seed, "%lld", atoll(argv[1]) + i);
        setenv("CHECK_SEED", seed, 1);
        int before = check_failures, bad;
        one();
        bad = check_failures > before;
        OK(MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
        failed += bad;
        if (bad && check_rank == 0) printf("FAILED: CHECK_SEED=%s\n", seed);
    }
    if (check_rank == 0) printf("%d passed, %d failed, 0 skipped\n", count - failed, failed);
}
