// Files: modes and errors in them, sizes, views, the three file pointers, split and nonblocking
// transfers, representations, error handlers.
// run: 1 2 3
// hosts
// checkers: address
#include "check.h"

static char name[256];

static void agree_on_name(void) {
    const char *folder = getenv("TMPDIR");
    snprintf(name, sizeof name, "%s/files-%d", folder ? folder : "/tmp", (int)getpid());
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static MPI_File opened(int mode) {
    MPI_File file;
    // Programs name the file system, as ROMIO allows.
    char named[sizeof name + 4] = "ufs:";
    if (check_is_combray) strcat(named, name);
    OK(MPI_File_open(MPI_COMM_WORLD, check_is_combray ? named : name, mode, MPI_INFO_NULL, &file));
    return file;
}

static void closed(MPI_File *file) {
    OK(MPI_File_close(file));
    CHECK(*file == MPI_FILE_NULL);
}

static void modes(void) {
    MPI_File file;
    int create = MPI_MODE_CREATE, amode;
    EXPECT_ERROR(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
                 MPI_ERR_NO_SUCH_FILE);
    EXPECT_ERROR(MPI_File_open(MPI_COMM_WORLD, name, create, MPI_INFO_NULL, &file), MPI_ERR_AMODE,
                 "argument 3");
    EXPECT_ERROR(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_WRONLY,
                               MPI_INFO_NULL, &file),
                 MPI_ERR_AMODE);
    EXPECT_ERROR(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | create, MPI_INFO_NULL,
                               &file),
                 MPI_ERR_AMODE);
    EXPECT_ERROR(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL,
                               MPI_INFO_NULL, &file),
                 MPI_ERR_AMODE);
    EXPECT_ERROR(MPI_File_delete(name, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE, name);
    if (check_size > 1 && check_is_combray)
        EXPECT_ERROR(MPI_File_open(MPI_COMM_WORLD, name,
                                   create | (check_rank ? MPI_MODE_RDWR : MPI_MODE_WRONLY),
                                   MPI_INFO_NULL, &file),
                     MPI_ERR_NOT_SAME);
    file = opened(MPI_MODE_WRONLY | create | MPI_MODE_EXCL);
    OK(MPI_File_get_amode(file, &amode));
    CHECK_EQ(amode, MPI_MODE_WRONLY | create | MPI_MODE_EXCL);
    EXPECT_ERROR(MPI_File_read_at(file, 0, &amode, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
    closed(&file);
    EXPECT_ERROR(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | create | MPI_MODE_EXCL,
                               MPI_INFO_NULL, &file),
                 MPI_ERR_FILE_EXISTS);
    file = opened(MPI_MODE_RDONLY);
    EXPECT_ERROR(MPI_File_write_at(file, 0, &amode, 1, MPI_INT, MPI_STATUS_IGNORE),
                 MPI_ERR_READ_ONLY);
    EXPECT_ERROR(MPI_File_set_size(file, 10), MPI_ERR_READ_ONLY);
    closed(&file);
    file = opened(MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    closed(&file);
    EXPECT_ERROR(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
                 MPI_ERR_NO_SUCH_FILE);
    EXPECT_ERROR(MPI_File_open(MPI_COMM_WORLD, "/nonsense/folder/file", create | MPI_MODE_RDWR,
                               MPI_INFO_NULL, &file),
                 MPI_ERR_NO_SUCH_FILE);
    EXPECT_ERROR(MPI_File_close(&file), MPI_ERR_FILE);
}

static void sizes(void) {
    MPI_File file = opened(MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_Offset size;
    OK(MPI_File_set_size(file, 100));
    OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 100);
    OK(MPI_File_preallocate(file, 50));
    OK(MPI_File_preallocate(file, 300));
    OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 300);
    OK(MPI_File_set_size(file, 7));
    EXPECT_ERROR(MPI_File_set_size(file, -1), MPI_ERR_ARG, "argument 2");
    OK(MPI_File_sync(file));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 7);
    MPI_Group group, world;
    int order;
    OK(MPI_File_get_group(file, &group));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_compare(group, world, &order));
    CHECK_EQ(order, MPI_IDENT);
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&world));
    int integer = MPI_File_toint(file);
    CHECK(MPI_File_fromint(integer) == file);
    CHECK(MPI_File_fromint(MPI_File_toint(MPI_FILE_NULL)) == MPI_FILE_NULL);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    closed(&file);
    file = opened(MPI_MODE_RDWR | MPI_MODE_APPEND);
    MPI_Offset own, shared;
    OK(MPI_File_get_position(file, &own));
    OK(MPI_File_get_position_shared(file, &shared));
    CHECK_EQ(own, 7);
    CHECK_EQ(shared, 7);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_set_size(file, 0));
    closed(&file);
}

// Each process has every `size`-th pair of ints.
static void views(void) {
    MPI_File file = opened(MPI_MODE_RDWR);
    MPI_Datatype pair, filetype, etype_back, filetype_back;
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_create_resized(pair, 0, (MPI_Aint)(8 * check_size), &filetype));
    OK(MPI_Type_commit(&filetype));
    EXPECT_ERROR(MPI_File_set_view(file, 0, MPI_INT, pair, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    EXPECT_ERROR(MPI_File_set_view(file, 0, MPI_INT, filetype, "unheard of", MPI_INFO_NULL),
                 MPI_ERR_UNSUPPORTED_DATAREP);
    EXPECT_ERROR(MPI_File_set_view(file, -5, MPI_INT, filetype, "native", MPI_INFO_NULL),
                 MPI_ERR_ARG);
    MPI_Offset displacement = 16 + 8 * check_rank, offset;
    OK(MPI_File_set_view(file, displacement, MPI_INT, filetype, "native", MPI_INFO_NULL));
    char representation[MPI_MAX_DATAREP_STRING];
    OK(MPI_File_get_view(file, &offset, &etype_back, &filetype_back, representation));
    CHECK_EQ(offset, displacement);
    CHECK(etype_back == MPI_INT && !strcmp(representation, "native"));
    MPI_Aint low, extent;
    OK(MPI_Type_get_extent(filetype_back, &low, &extent));
    CHECK_EQ(extent, 8 * check_size);
    OK(MPI_Type_free(&filetype_back));
    enum { INTS = 1000 };
    int data[INTS], back[INTS], count;
    for (int i = 0; i < INTS; i++) data[i] = check_rank * 100000 + i;
    MPI_Status status;
    OK(MPI_File_write(file, data, INTS / 2, MPI_INT, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK_EQ(count, INTS / 2);
    OK(MPI_File_get_position(file, &offset));
    CHECK_EQ(offset, INTS / 2);
    OK(MPI_File_get_byte_offset(file, 3, &offset));
    CHECK_EQ(offset, displacement + 8 * check_size + 4);
    OK(MPI_File_write_all(file, data + INTS / 2, INTS / 2, MPI_INT, &status));
    OK(MPI_File_sync(file));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_sync(file));
    OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    memset(back, -1, sizeof back);
    OK(MPI_File_read_all(file, back, INTS, MPI_INT, &status));
    for (int i = 0; i < INTS; i++) CHECK_EQ(back[i], data[i]);
    OK(MPI_File_seek(file, -6, MPI_SEEK_END));
    OK(MPI_File_get_position(file, &offset));
    CHECK_EQ(offset, INTS - 6);
    // Only existing bytes are read, and the rest of the buffer is unchanged.
    back[6] = 77;
    OK(MPI_File_read(file, back, 10, MPI_INT, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK_EQ(count, 6);
    CHECK_EQ(back[0], data[INTS - 6]);
    CHECK_EQ(back[6], 77);
    EXPECT_ERROR(MPI_File_seek(file, -5, MPI_SEEK_SET), MPI_ERR_ARG);
    EXPECT_ERROR(MPI_File_read_at(file, -1, back, 1, MPI_INT, &status), MPI_ERR_ARG);
    EXPECT_ERROR(MPI_File_write(file, data, 3, MPI_CHAR, &status), MPI_ERR_TYPE);
    // These bytes again, without the view.
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_set_view(file, 16, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at_all(file, 2, back, 2, MPI_INT, &status));
    int owner = check_size > 1 ? 1 : 0, first = check_size > 1 ? 0 : 2;
    CHECK_EQ(back[0], owner * 100000 + first);
    CHECK_EQ(back[1], owner * 100000 + first + 1);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_set_size(file, 0));
    OK(MPI_Type_free(&pair));
    OK(MPI_Type_free(&filetype));
    closed(&file);
}

static void pointers(void) {
    MPI_File file = opened(MPI_MODE_RDWR);
    int data[4] = {check_rank, check_rank, check_rank, check_rank}, back[4], count;
    MPI_Status status;
    MPI_Offset offset;
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_write_shared(file, data, 4, MPI_INT, &status));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_get_position_shared(file, &offset));
    CHECK_EQ(offset, 4 * check_size);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    OK(MPI_File_read_shared(file, back, 4, MPI_INT, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK_EQ(count, 4);
    for (int i = 1; i < 4; i++) CHECK_EQ(back[i], back[0]);
    int sum = back[0], all;
    OK(MPI_Allreduce(&sum, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(all, check_size * (check_size - 1) / 2);
    // In the order of the ranks, each with as many ints as its rank and one.
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    OK(MPI_File_write_ordered(file, data, check_rank % 4 + 1, MPI_INT, &status));
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    OK(MPI_File_read_ordered_begin(file, back, check_rank % 4 + 1, MPI_INT));
    EXPECT_ERROR(MPI_File_read_all_end(file, back, &status), MPI_ERR_OTHER);
    if (check_is_combray)
        EXPECT_ERROR(MPI_File_set_size(file, 100), MPI_ERR_OTHER);
    OK(MPI_File_read_ordered_end(file, back, &status));
    for (int i = 0; i < check_rank % 4 + 1; i++) CHECK_EQ(back[i], check_rank);
    // What others read is overwritten now.
    OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_Request requests[3];
    OK(MPI_File_seek(file, 4 * check_rank, MPI_SEEK_SET));
    OK(MPI_File_iwrite(file, data, 2, MPI_INT, &requests[0]));
    OK(MPI_File_iwrite_at(file, 4 * check_rank + 2, data, 2, MPI_INT, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    OK(MPI_File_get_position(file, &offset));
    CHECK_EQ(offset, 4 * check_rank + 2);
    OK(MPI_File_iread_at(file, 4 * check_rank, back, 4, MPI_INT, &requests[0]));
    EXPECT_ERROR(MPI_Cancel(&requests[0]), MPI_ERR_REQUEST);
    OK(MPI_Wait(&requests[0], &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK_EQ(count, 4);
    for (int i = 0; i < 4; i++) CHECK_EQ(back[i], check_rank);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_iwrite_at_all(file, 4 * check_rank, data, 4, MPI_INT, &requests[0]));
    OK(MPI_Wait(&requests[0], &status));
    OK(MPI_File_seek(file, 4 * check_rank, MPI_SEEK_SET));
    OK(MPI_File_iread_all(file, back, 4, MPI_INT, &requests[0]));
    OK(MPI_Wait(&requests[0], &status));
    for (int i = 0; i < 4; i++) CHECK_EQ(back[i], check_rank);
    OK(MPI_File_set_atomicity(file, 1));
    int flag;
    OK(MPI_File_get_atomicity(file, &flag));
    CHECK_EQ(flag, 1);
    OK(MPI_File_write_at(file, 0, data, 4, MPI_INT, &status));
    OK(MPI_File_read_at(file, 0, back, 4, MPI_INT, &status));
    for (int i = 1; i < 4; i++) CHECK_EQ(back[i], back[0]);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_set_size(file, 0));
    closed(&file);
    file = opened(MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
    EXPECT_ERROR(MPI_File_write(file, data, 1, MPI_INT, &status), MPI_ERR_UNSUPPORTED_OPERATION);
    OK(MPI_File_write_ordered(file, data, 2, MPI_INT, &status));
    OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native",
                         MPI_INFO_NULL));
    MPI_Datatype etype, filetype;
    char representation[MPI_MAX_DATAREP_STRING];
    OK(MPI_File_get_view(file, &offset, &etype, &filetype, representation));
    CHECK_EQ(offset, 8 * check_size);
    closed(&file);
}

static int conversions;

static int extent_of(MPI_Datatype datatype, MPI_Aint *extent, void *state) {
    (void)state;
    int size;
    MPI_Type_size(datatype, &size);
    *extent = size;
    return MPI_SUCCESS;
}

// The representation has the bytes of ints in reverse order.
static int turned(void *to, const void *from, int count) {
    for (int i = 0; i < count; i++)
        for (int byte = 0; byte < 4; byte++)
            ((char *)to)[4 * i + byte] = ((const char *)from)[4 * i + 3 - byte];
    conversions++;
    return MPI_SUCCESS;
}

static int reading(void *user, MPI_Datatype datatype, int count, void *file, MPI_Offset position,
                   void *state) {
    (void)datatype, (void)position;
    CHECK(state == &conversions);
    return turned(user, file, count);
}

static int writing(void *user, MPI_Datatype datatype, int count, void *file, MPI_Offset position,
                   void *state) {
    (void)datatype, (void)position, (void)state;
    return turned(file, user, count);
}

enum { HOLES = 32, HELD = 8, LOST_ROUNDS = 200 };

// A view of every other `HELD` bytes, of those that begin `from` bytes later.
static void view_with_holes(MPI_File file, int from) {
    MPI_Datatype held, with_hole;
    OK(MPI_Type_contiguous(HELD, MPI_BYTE, &held));
    OK(MPI_Type_create_resized(held, 0, 2 * HELD, &with_hole));
    OK(MPI_Type_commit(&with_hole));
    OK(MPI_File_set_view(file, from, MPI_BYTE, with_hole, "native", MPI_INFO_NULL));
    OK(MPI_Type_free(&held));
    OK(MPI_Type_free(&with_hole));
}

static MPI_Info sieving(void) {
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "romio_ds_write", "enable"));
    return info;
}

// A process without read permission still writes beside holes, also where they would be written
// together.
static void holes_of_what_is_only_written(void) {
    unsigned char bytes[HOLES * HELD], back[2 * HOLES * HELD];
    MPI_Info info = sieving();
    for (int way = 0; way < 3; way++) {
        MPI_File file;
        int mode = MPI_MODE_WRONLY | MPI_MODE_CREATE | (way == 2 ? MPI_MODE_UNIQUE_OPEN : 0);
        int is_one = way == 2;
        if (is_one && check_rank > 0) continue;
        OK(MPI_File_open(is_one ? MPI_COMM_SELF : MPI_COMM_WORLD, name, mode,
                         way == 1 ? info : MPI_INFO_NULL, &file));
        OK(MPI_File_set_atomicity(file, way == 0));
        view_with_holes(file, 0);
        memset(bytes, 40 + way, sizeof bytes);
        OK(MPI_File_write_at(file, 0, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE));
        closed(&file);
        OK(MPI_File_open(is_one ? MPI_COMM_SELF : MPI_COMM_WORLD, name, MPI_MODE_RDONLY,
                         MPI_INFO_NULL, &file));
        OK(MPI_File_read_at(file, 0, back, sizeof back, MPI_BYTE, MPI_STATUS_IGNORE));
        for (int at = 0; at < HOLES; at++)
            CHECK_EQ(back[2 * HELD * at + HELD - 1], 40 + way);
        closed(&file);
    }
    OK(MPI_Info_free(&info));
    MPI_Barrier(MPI_COMM_WORLD);
}

// If holes are written together with the data between them, a process that concurrently writes a
// single run into a hole loses nothing.
//
// Every process may have hints of its own: those with odd ranks are given `odd`, the others `even`.
static void single_runs_beside_holes(const char *even, const char *odd) {
    unsigned char bytes[HOLES * HELD], back[HOLES * HELD];
    int is_odd = check_rank % 2;
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "romio_ds_write", is_odd ? odd : even));
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
    OK(MPI_Info_free(&info));
    // Two processes share the bytes of each place; others have places of their own.
    view_with_holes(file, check_rank / 2 * 2 * (int)sizeof bytes + is_odd * HELD);
    for (int round = 1; round <= LOST_ROUNDS; round++) {
        memset(bytes, round, sizeof bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        int step = is_odd ? HELD : (int)sizeof bytes;
        for (int at = 0; at < (int)sizeof bytes; at += step)
            OK(MPI_File_write_at(file, at, bytes, step, MPI_BYTE, MPI_STATUS_IGNORE));
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_File_read_at(file, 0, back, sizeof back, MPI_BYTE, MPI_STATUS_IGNORE));
        REQUIRE(memcmp(back, bytes, sizeof back) == 0, "round %d: bytes are lost", round);
    }
    closed(&file);
}

// A process that writes near runs together, without any hint, loses no bytes that a process whose
// view has no holes writes between them.
static void bytes_without_view_beside_holes(void) {
    unsigned char bytes[HOLES * HELD], back[2 * HOLES * HELD];
    MPI_File file = opened(MPI_MODE_RDWR | MPI_MODE_CREATE);
    int is_odd = check_rank % 2, place = check_rank / 2 * (int)sizeof back;
    if (is_odd)
        OK(MPI_File_set_view(file, place, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    else
        view_with_holes(file, place);
    for (int round = 1; round <= LOST_ROUNDS; round++) {
        memset(bytes, round, sizeof bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        if (!is_odd)
            OK(MPI_File_write_at(file, 0, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE));
        for (int at = HELD; is_odd && at < (int)sizeof back; at += 2 * HELD)
            OK(MPI_File_write_at(file, at, bytes, HELD, MPI_BYTE, MPI_STATUS_IGNORE));
        MPI_Barrier(MPI_COMM_WORLD);
        if (!is_odd) continue;
        OK(MPI_File_read_at(file, 0, back, sizeof back, MPI_BYTE, MPI_STATUS_IGNORE));
        for (int at = 0; at < (int)sizeof back; at++)
            REQUIRE(back[at] == round, "round %d: byte %d is lost", round, at);
    }
    closed(&file);
}

static void representations(void) {
    OK(MPI_Register_datarep("turned", reading, writing, extent_of, &conversions));
    EXPECT_ERROR(MPI_Register_datarep("turned", reading, writing, extent_of, NULL),
                 MPI_ERR_DUP_DATAREP);
    EXPECT_ERROR(MPI_Register_datarep("native", reading, writing, extent_of, NULL),
                 MPI_ERR_DUP_DATAREP);
    MPI_File file = opened(MPI_MODE_RDWR);
    const char *names[] = {"turned", "external32"};
    for (int kind = 0; kind < 2; kind++) {
        int data[3] = {0x01020304, check_rank, -1}, back[3] = {0}, count;
        MPI_Status status;
        OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, names[kind], MPI_INFO_NULL));
        OK(MPI_File_write_at_all(file, 3 * check_rank, data, 3, MPI_INT, &status));
        OK(MPI_Get_count(&status, MPI_INT, &count));
        CHECK_EQ(count, 3);
        OK(MPI_File_read_at_all(file, 3 * check_rank, back, 3, MPI_INT, &status));
        OK(MPI_Get_count(&status, MPI_INT, &count));
        CHECK_EQ(count, 3);
        CHECK(!memcmp(data, back, sizeof data));
        MPI_Request request;
        memset(back, 0, sizeof back);
        OK(MPI_File_iread_at(file, 3 * check_rank, back, 3, MPI_INT, &request));
        OK(MPI_Wait(&request, &status));
        CHECK(!memcmp(data, back, sizeof data));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        unsigned char bytes[4];
        OK(MPI_File_read_at(file, 12 * check_rank, bytes, 4, MPI_BYTE, &status));
        CHECK(bytes[0] == 1 && bytes[1] == 2 && bytes[2] == 3 && bytes[3] == 4);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    CHECK(conversions >= 3);
    MPI_Aint extent;
    OK(MPI_File_get_type_extent(file, MPI_LONG, &extent));
    CHECK_EQ(extent, 8);
    OK(MPI_File_set_view(file, 0, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL));
    OK(MPI_File_get_type_extent(file, MPI_LONG, &extent));
    CHECK_EQ(extent, 4);
    closed(&file);
}

static MPI_File told_of;
static int told_code, told_times;

static void handler(MPI_File *file, int *code, ...) {
    told_of = *file;
    told_code = *code;
    told_times++;
}

static void handlers(void) {
    MPI_Errhandler errhandler, back;
    MPI_File file;
    OK(MPI_File_get_errhandler(MPI_FILE_NULL, &back));
    CHECK(back == MPI_ERRORS_RETURN);
    OK(MPI_File_create_errhandler(handler, &errhandler));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, errhandler));
    EXPECT_ERROR(MPI_File_open(MPI_COMM_WORLD, "/nonsense/file", MPI_MODE_RDONLY, MPI_INFO_NULL,
                               &file),
                 MPI_ERR_NO_SUCH_FILE);
    CHECK_EQ(told_times, 1);
    CHECK(told_of == MPI_FILE_NULL);
    file = opened(MPI_MODE_RDWR);
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    int code = MPI_File_seek(file, -1, MPI_SEEK_SET);
    CHECK(told_times == 2 && told_of == file && told_code == code);
    OK(MPI_File_get_errhandler(file, &back));
    CHECK(back == errhandler);
    OK(MPI_Errhandler_free(&back));
    OK(MPI_File_call_errhandler(file, MPI_ERR_IO));
    CHECK(told_times == 3 && told_code == MPI_ERR_IO);
    OK(MPI_Errhandler_free(&errhandler));
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL];
    int flag, length = sizeof value;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "cb_buffer_size", "65536"));
    OK(MPI_Info_set(info, "romio_ds_read", "nonsense"));
    OK(MPI_File_set_info(file, info));
    OK(MPI_Info_free(&info));
    OK(MPI_File_get_info(file, &info));
    OK(MPI_Info_get_string(info, "cb_buffer_size", &length, value, &flag));
    CHECK(flag && !strcmp(value, "65536"));
    length = sizeof value;
    if (check_is_combray) {
        OK(MPI_Info_get_string(info, "romio_ds_read", &length, value, &flag));
        CHECK(flag && !strcmp(value, "automatic"));
    }
    OK(MPI_Info_free(&info));
    closed(&file);
}

int main(void) {
    check_begin();
    agree_on_name();
    modes();
    sizes();
    views();
    pointers();
    holes_of_what_is_only_written();
    single_runs_beside_holes("enable", "enable");
    single_runs_beside_holes("automatic", "disable");
    single_runs_beside_holes("disable", "enable");
    bytes_without_view_beside_holes();
    representations();
    handlers();
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) OK(MPI_File_delete(name, MPI_INFO_NULL));
    return check_end();
}
