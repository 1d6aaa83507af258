//! What brokers got wrong in public, and what is right, as far as one node can show it: each expectation was observed on
//! Apache Kafka 4.4.0 (`KELDA_TEST_BROKER=kafka cargo test -p integration --features live --test behaviours`).
//! The letters and numbers in the names of tests are those of the project's list of behaviours.

mod fetch;
mod groups;
mod hostile;

mod metadata;
mod newest;
mod offsets;
mod produce;
mod versions;

use integration::harness::Broker;
use integration::wire::Client;

/// A connection to the broker that all tests here share.
fn connect() -> Client {
    Client::connect(Broker::shared()).expect("the broker accepts connections")
}
