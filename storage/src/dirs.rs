//! Log directories: lock, identity, clean-shutdown file, checkpoints, partitions.
