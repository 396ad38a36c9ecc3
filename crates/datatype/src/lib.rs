//! MPI datatypes to segments; pack and unpack; reduction kernels.
