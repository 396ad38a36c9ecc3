// Part of fake_devices.h: what devices there are, and names of errors.

int cuDriverGetVersion(int *version) {
    MAY_FAIL();
    *version = 12040;
    return SUCCESS;
}

int cuDeviceCanAccessPeer(int *can, int device, int other) {
    MAY_FAIL();
    (void)device, (void)other;
    *can = (int)setting("FAKE_DEVICE_PEERS", 1);
    return SUCCESS;
}

// The attribute of processes: any number, or what the variable says.
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    MAY_FAIL();
    (void)device;
    *value = attribute == 20 ? (int)setting("FAKE_DEVICE_MODE", 0) : 1;
    return SUCCESS;
}

int cuGetErrorName(int error, const char **name) {
    if (fails(__func__)) return INVALID_VALUE;
    static const struct { int error; const char *name; } names[] = {
        {SUCCESS, "CUDA_SUCCESS"}, {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"}, {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
        {NO_DEVICE, "CUDA_ERROR_INVALID_DEVICE"}, {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
        {NO_PEER_ACCESS, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"}, {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
        {NOT_READY, "CUDA_ERROR_NOT_READY"}, {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"}, {INJECTED, "CUDA_ERROR_UNKNOWN"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].error == error) {
            *name = names[i].name;
            return SUCCESS;
        }
    return INVALID_VALUE;
}

int cuDeviceGetCount(int *count) {
    MAY_FAIL();
    *count = DEVICES;
    return initialized ? SUCCESS : NOT_INITIALIZED;
}

static int is_device(int device) { return device >= 0 && device < DEVICES; }

int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return is_device(ordinal) ? SUCCESS : NO_DEVICE;
}

int cuDeviceGetName(char *name, int room, int device) {
    MAY_FAIL();
    snprintf(name, room, "Device %d of no machine", device);
    return SUCCESS;
}

int cuDeviceGetPCIBusId(char *name, int room, int device) {
    MAY_FAIL();
    snprintf(name, room, "0000:%02x:00.0", 0x17 + device);
    return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    MAY_FAIL();
    (void)device;
    *bytes = ARENA;
    return SUCCESS;
}
