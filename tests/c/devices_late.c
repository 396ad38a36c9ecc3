// The driver's library is loaded after MPI_Init, as Python programs do (scenarios/devices.py).
#include "devices.h"

int main(int argc, char **argv) {
    check_begin();
    // Its own memory is what it was before.
    int before = check_rank, after = -1;
    OK(MPI_Allreduce(&before, &after, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    REQUIRE(argc == 2 && dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL), "%s", dlerror());
    devices_begin();
    int *memory = device_memory(DEVICE, sizeof *memory), sum = 0;
    device_set(DEVICE, memory, &check_rank, sizeof *memory);
    OK(MPI_Allreduce(MPI_IN_PLACE, memory, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    device_get(DEVICE, &sum, memory, sizeof sum);
    CHECK_EQ(sum, after);
    return check_end();
}
