//! Lock-free queues in shared memory.
