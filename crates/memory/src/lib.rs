//! User buffers and layouts behind one unsafe constructor.
