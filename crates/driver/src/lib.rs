//! The driver trait, its conformance suite and the loopback driver.
