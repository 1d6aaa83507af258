//! Checks what clients were told and saw against what a log promises: nothing acknowledged is lost, nothing is there twice,
//! nothing changes its place.
//!
//! Every value written is unique. Beside the acknowledgements (value, offset) stand the reads in the order in which each
//! reader saw them. The checks are those of Jepsen's Kafka test as far as they need no transactions.

mod check;

pub use check::{Rules, Verdict, check};

/// A partition, by any number.
pub type Partition = u32;
/// A process: one producer or one consumer.
pub type Process = u32;
/// A value, written once.
pub type Value = u64;

/// How a send ended, as far as its process knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Outcome {
    /// Acknowledged at this offset; `None` where the client was not told.
    Acked(Option<i64>),
    /// Certainly not written.
    Failed,
    /// Nobody knows: the connection ended, or the client gave up waiting.
    Unknown,
}

/// Something that happened, in the order of time of its process.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Event {
    /// A value was sent.
    Send {
        /// Who.
        process: Process,
        /// Where to.
        partition: Partition,
        /// What.
        value: Value,
        /// How it ended.
        outcome: Outcome,
    },
    /// One answer to one poll: offsets and values of one partition in the order given.
    Poll {
        /// Who.
        process: Process,
        /// Where from.
        partition: Partition,
        /// What.
        records: Vec<(i64, Value)>,
    },
    /// The process was given other partitions or sought elsewhere: its next poll may begin anywhere.
    Reassigned {
        /// Who.
        process: Process,
    },
    /// All is over: a reader began at this offset after the last send and read to the end, `end` excluded.
    Final {
        /// Where.
        partition: Partition,
        /// The first offset that may be read.
        start: i64,
        /// The offset after the last.
        end: i64,
        /// All that was read.
        records: Vec<(i64, Value)>,
    },
}
