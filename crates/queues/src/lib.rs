//! Lock-free queues in shared memory.
//!
//! [`ring`] is the one queue that processes of one machine send packets through. It is handed
//! memory and knows neither how that is shared nor what the packets mean.

pub mod ring;
