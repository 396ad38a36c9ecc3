//! Starting processes, PMI-1, key-value exchange.
