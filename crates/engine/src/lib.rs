//! Gates, outboxes, matching, rendezvous, strategies.
