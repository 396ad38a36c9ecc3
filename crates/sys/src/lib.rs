//! The only caller of libc.
