"""Puts the arrays that mpi4py's tests make by numpy.zeros into memory of devices, where a library of
tests/c/fake_devices.h is loaded: arrays of NumPy, of DLPack and with the CUDA array interface."""

import ctypes
import weakref

try:
    import numpy

    _make = ctypes.CDLL(None).fake_device_visible
    _free = ctypes.CDLL(None).fake_device_free_visible
except (ImportError, AttributeError):
    numpy = None

if numpy:
    _make.restype, _make.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    _free.restype, _free.argtypes = None, [ctypes.c_void_p]
    _plain = numpy.zeros

    def _zeros(shape, dtype=float, *others, **named):
        array = _plain(shape, dtype, *others, **named)
        address = _make(array.nbytes) if array.nbytes else None
        if address is None:
            return array
        memory = (ctypes.c_char * array.nbytes).from_address(address)
        weakref.finalize(memory, _free, address)
        return numpy.frombuffer(memory, dtype=array.dtype).reshape(array.shape)

    numpy.zeros = _zeros
