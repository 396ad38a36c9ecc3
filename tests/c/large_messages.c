// Messages of 2.5 GiB: counted with MPI_Count, as a datatype with a small count, and as a datatype
// with gaps; MPI_Get_count says MPI_UNDEFINED where an int cannot hold the number.
// run: 2
// timeout: 120
// memory: 9
// alone: fills the memory
#include "check.h"

static const size_t BYTES = (size_t)5 << 29;
enum { STRIDE = 8191, BLOCK = 1 << 20, COLUMNS = 2560 };

static unsigned char *buffer;

static void fill(size_t bytes, int seed) {
    for (size_t i = 0; i < bytes; i += STRIDE) buffer[i] = pattern_byte(seed, i);
    buffer[bytes - 1] = 0xa5;
}

static void judge(size_t bytes, int seed) {
    for (size_t i = 0; i < bytes - 1; i += STRIDE)
        REQUIRE(buffer[i] == pattern_byte(seed, i), "byte %zu of %zu", i, bytes);
    CHECK_EQ(buffer[bytes - 1], 0xa5);
}

static void large_count(void) {
    MPI_Status status;
    MPI_Count counted;
    int short_count;
    if (check_rank == 0) {
        fill(BYTES, 1);
        OK(MPI_Send_c(buffer, (MPI_Count)BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD));
        return;
    }
    memset(buffer, 0, BYTES);
    OK(MPI_Recv_c(buffer, (MPI_Count)BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &status));
    OK(MPI_Get_count_c(&status, MPI_BYTE, &counted));
    CHECK_EQ(counted, BYTES);
    OK(MPI_Get_count(&status, MPI_BYTE, &short_count));
    CHECK_EQ(short_count, MPI_UNDEFINED);
    OK(MPI_Get_elements_c(&status, MPI_BYTE, &counted));
    CHECK_EQ(counted, BYTES);
    judge(BYTES, 1);
}

static void large_type(void) {
    MPI_Datatype block;
    MPI_Status status;
    int counted;
    OK(MPI_Type_contiguous(BLOCK, MPI_BYTE, &block));
    OK(MPI_Type_commit(&block));
    int blocks = (int)(BYTES / BLOCK);
    if (check_rank == 0) {
        fill(BYTES, 2);
        OK(MPI_Send(buffer, blocks, block, 1, 0, MPI_COMM_WORLD));
    } else {
        memset(buffer, 0, BYTES);
        OK(MPI_Recv(buffer, blocks, block, 0, 0, MPI_COMM_WORLD, &status));
        OK(MPI_Get_count(&status, block, &counted));
        CHECK_EQ(counted, blocks);
        judge(BYTES, 2);
    }
    OK(MPI_Type_free(&block));
}

// 2.25 GiB of 2.5: blocks of 0.9 MiB, one a MiB; the receiver uses this type, too.
static void with_gaps(void) {
    enum { USED = 943718 };
    MPI_Datatype gaps;
    MPI_Count size;
    OK(MPI_Type_create_hvector(COLUMNS, USED, BLOCK, MPI_BYTE, &gaps));
    OK(MPI_Type_commit(&gaps));
    OK(MPI_Type_size_c(gaps, &size));
    CHECK_EQ(size, (MPI_Count)COLUMNS * USED);
    int int_size;
    OK(MPI_Type_size(gaps, &int_size));
    CHECK_EQ(int_size, MPI_UNDEFINED);
    if (check_rank == 0) {
        fill(BYTES, 3);
        OK(MPI_Send(buffer, 1, gaps, 1, 0, MPI_COMM_WORLD));
    } else {
        memset(buffer, 0xEE, BYTES);
        OK(MPI_Recv(buffer, 1, gaps, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (size_t i = 0; i < BYTES - 1; i += STRIDE) {
            unsigned char expected = i % BLOCK < USED ? pattern_byte(3, i) : 0xEE;
            REQUIRE(buffer[i] == expected, "byte %zu", i);
        }
        CHECK_EQ(buffer[BYTES - 1], 0xEE);
    }
    OK(MPI_Type_free(&gaps));
}

int main(void) {
    check_begin();
    buffer = malloc(BYTES);
    REQUIRE(buffer != NULL, "memory");
    large_count();
    large_type();
    with_gaps();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    free(buffer);
    return check_end();
}
