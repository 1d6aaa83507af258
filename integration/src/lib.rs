//! What the tests across crates share: real brokers as processes, a client that speaks the protocol byte by byte, the checker of histories.
//!
//! Every expectation is observed on Apache Kafka first: with `KELDA_TEST_BROKER=kafka` the same tests run against Apache
//! Kafka 4.4.0, started by `integration/kafka/kafka.sh`; without, against the `kelda` binary of this tree.

pub mod harness;
pub mod history;
pub mod killloop;
pub mod wire;
