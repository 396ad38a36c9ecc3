//! Ids, limits, error vocabulary and rail profiles.
