//! Tests of the whole log.

mod basics;
mod recovery;
mod testkit;
