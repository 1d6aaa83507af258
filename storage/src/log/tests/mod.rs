//! Tests of the whole log.

mod basics;
mod power_loss;
mod recovery;
mod testkit;
