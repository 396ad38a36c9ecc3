//! The shared library libmpi_abi.so.1.
