//! Writes a directory's offset checkpoints, and says which logs should advance their recovery points.
