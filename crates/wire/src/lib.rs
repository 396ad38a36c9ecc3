//! Packet records: checked views and emit.
