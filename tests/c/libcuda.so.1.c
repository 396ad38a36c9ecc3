// NVIDIA's driver on a machine without a device.
#include "fake_devices.h"
