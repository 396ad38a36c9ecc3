// Copies that fail, and what programs ask about devices: a copy that the driver refuses is an error
// of the call with the driver's name for it, and the next call works.
// run: 2
// preload: libcuda.so.1.c
// combray.h
#include "devices.h"

#include <mpi-ext.h>

static int count_of(const char *text, const char *word) {
    int count = 0;
    for (; (text = strstr(text, word)); text++) count++;
    return count;
}

static void check_failure(int code, const char *call) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    CHECK_CLASS(code, MPI_ERR_OTHER);
    CHECK(strstr(text, call) && count_of(text, "CUDA_ERROR_INVALID_VALUE") == 1, "the message is: %s", text);
}

int main(void) {
    check_begin();
    devices_begin();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int peer = 1 - check_rank, supported = -1;
    int *memory = device_memory(DEVICE, 4000), *after = memory + 1000 - 4;

    // More than there is: the last elements are behind the end of the memory.
    if (check_rank == 0) {
        check_failure(MPI_Send(after, 8, MPI_INT, peer, 1, MPI_COMM_WORLD), "MPI_Send");
        int values[8] = {0};
        OK(MPI_Recv(values, 8, MPI_INT, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
        int values[8] = {0};
        OK(MPI_Recv(values, 8, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Send(values, 8, MPI_INT, peer, 2, MPI_COMM_WORLD));
    }
    // A result that does not fit, in an operation of all.
    int one = 1;
    int *result = check_rank == 0 ? after + 3 : memory;
    int numbers[2] = {1, 2};
    int code = MPI_Allreduce(numbers, result, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (check_rank == 0) check_failure(code, "MPI_Allreduce");
    else CHECK_EQ(code, MPI_SUCCESS);
    OK(MPI_Allreduce(&one, memory, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    device_get(DEVICE, &one, memory, sizeof one);
    CHECK_EQ(one, 2);
    // Rank 0 gets nothing from an exclusive scan: its memory for the result may be short.
    int given[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    OK(MPI_Exscan(given, check_rank == 0 ? after + 3 : memory, 8, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    device_get(DEVICE, given, memory, sizeof *given);
    if (check_rank == 1) CHECK_EQ(given[0], 1);
    device_free(DEVICE, memory);

    // What programs ask.
    CHECK_EQ(MPIX_Query_cuda_support(), 1);
    CHECK_EQ(MPIX_Query_rocm_support(), 1);
    CHECK_EQ(MPIX_Query_ze_support(), 0);
    OK(MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &supported));
    CHECK_EQ(supported, 1);
    OK(MPIX_GPU_query_support(MPIX_GPU_SUPPORT_HIP, &supported));
    CHECK_EQ(supported, 1);
    OK(MPIX_GPU_query_support(MPIX_GPU_SUPPORT_ZE, &supported));
    CHECK_EQ(supported, 0);
    CHECK_CLASS(MPIX_GPU_query_support(7, &supported), MPI_ERR_ARG);
    MPI_Info info;
    char kinds[100] = "";
    int length = sizeof kinds, found;
    OK(MPI_Comm_get_info(MPI_COMM_WORLD, &info));
    OK(MPI_Info_get_string(info, "mpi_memory_alloc_kinds", &length, kinds, &found));
    CHECK(found && strstr(kinds, "cuda:device"), "the kinds are %s", kinds);
    MPI_Info_free(&info);
    return check_end();
}
