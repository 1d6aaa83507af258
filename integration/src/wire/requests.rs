//! The requests that most tests send, with few words.

use anyhow::Result;
use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::list_offsets_response::ListOffsetsPartitionResponse;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{
    BrokerId, FetchRequest, ListOffsetsRequest, MetadataRequest, MetadataResponse, ProduceRequest,
    TopicName,
};
use kafka_protocol::protocol::StrBytes;

use super::Client;
use super::batch::{Header, Record, read};

/// A text as the protocol crate wants it.
#[must_use]
pub fn text(value: &str) -> StrBytes {
    StrBytes::from_string(value.to_owned())
}

/// A topic name as the protocol crate wants it.
#[must_use]
pub fn topic_name(value: &str) -> TopicName {
    TopicName(text(value))
}

/// A Produce request of one partition.
#[must_use]
pub fn produce_request(topic: &str, partition: i32, acks: i16, records: Vec<u8>) -> ProduceRequest {
    let data =
        PartitionProduceData::default().with_index(partition).with_records(Some(records.into()));
    let topic =
        TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(acks).with_timeout_ms(30_000).with_topic_data(vec![topic])
}

/// A Fetch request of one partition, that answers at once, without a session.
#[must_use]
pub fn fetch_request(topic: &str, partition: i32, offset: i64) -> FetchRequest {
    let partition = FetchPartition::default()
        .with_partition(partition)
        .with_fetch_offset(offset)
        .with_current_leader_epoch(-1)
        .with_last_fetched_epoch(-1)
        .with_log_start_offset(-1)
        .with_partition_max_bytes(1 << 20);
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(0)
        .with_min_bytes(1)
        .with_max_bytes(50 << 20)
        .with_session_id(0)
        .with_session_epoch(-1)
        .with_topics(vec![
            FetchTopic::default().with_topic(topic_name(topic)).with_partitions(vec![partition]),
        ])
}

/// A ListOffsets request of one partition.
#[must_use]
pub fn list_offsets_request(topic: &str, partition: i32, timestamp: i64) -> ListOffsetsRequest {
    let partition = ListOffsetsPartition::default()
        .with_partition_index(partition)
        .with_current_leader_epoch(-1)
        .with_timestamp(timestamp);
    ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_timeout_ms(30_000).with_topics(
        vec![
            ListOffsetsTopic::default()
                .with_name(topic_name(topic))
                .with_partitions(vec![partition]),
        ],
    )
}

impl Client {
    /// Produces with acks=all in version 9 and gives the partition's answer.
    pub fn produce(
        &mut self,
        topic: &str,
        partition: i32,
        records: Vec<u8>,
    ) -> PartitionProduceResponse {
        self.produce_at(9, topic, partition, -1, records)
    }

    /// As [`Self::produce`], in a version below 13 and with these acks.
    pub fn produce_at(
        &mut self,
        version: i16,
        topic: &str,
        partition: i32,
        acks: i16,
        records: Vec<u8>,
    ) -> PartitionProduceResponse {
        self.try_produce(version, topic, partition, acks, records)
            .unwrap_or_else(|error| panic!("Produce version {version}: {error:#}"))
    }

    /// As [`Self::produce_at`].
    ///
    /// # Errors
    /// The connection ends.
    pub fn try_produce(
        &mut self,
        version: i16,
        topic: &str,
        partition: i32,
        acks: i16,
        records: Vec<u8>,
    ) -> Result<PartitionProduceResponse> {
        let mut answer =
            self.try_call(version, &produce_request(topic, partition, acks, records))?;
        let mut topic = answer.responses.pop().ok_or_else(|| anyhow::anyhow!("no topic"))?;
        topic.partition_responses.pop().ok_or_else(|| anyhow::anyhow!("no partition"))
    }

    /// Fetches one partition in version 12; waits for nothing.
    pub fn fetch(&mut self, topic: &str, partition: i32, offset: i64) -> PartitionData {
        let mut answer = self.call(12, &fetch_request(topic, partition, offset));
        assert_eq!(answer.error_code, 0, "{answer:?}");
        answer.responses.pop().and_then(|mut topic| topic.partitions.pop()).expect("one partition")
    }

    /// All batches and records of a partition from `offset` to the high watermark, fetch after fetch.
    pub fn read_all(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> (Vec<Header>, Vec<Record>) {
        let (mut headers, mut records) = (Vec::new(), Vec::new());
        let mut position = offset;
        loop {
            let answer = self.fetch(topic, partition, position);
            assert_eq!(answer.error_code, 0, "fetch at {position}: {answer:?}");
            let (new_headers, new_records) = read(answer.records.as_ref().unwrap_or(&Bytes::new()));
            let Some(last) = new_headers.last() else {
                assert!(position >= answer.high_watermark, "nothing at {position}: {answer:?}");
                return (headers, records);
            };
            position = last.next_offset();
            headers.extend(new_headers);
            records.extend(new_records.into_iter().filter(|record| record.offset >= offset));
        }
    }

    /// ListOffsets of one partition.
    pub fn list_offset(
        &mut self,
        version: i16,
        topic: &str,
        partition: i32,
        timestamp: i64,
    ) -> ListOffsetsPartitionResponse {
        let mut answer = self.call(version, &list_offsets_request(topic, partition, timestamp));
        answer.topics.pop().and_then(|mut topic| topic.partitions.pop()).expect("one partition")
    }

    /// Metadata of topics by name.
    pub fn metadata(&mut self, version: i16, topics: &[&str], create: bool) -> MetadataResponse {
        let topics = topics
            .iter()
            .map(|name| MetadataRequestTopic::default().with_name(Some(topic_name(name))))
            .collect();
        let request = MetadataRequest::default()
            .with_topics(Some(topics))
            .with_allow_auto_topic_creation(create);
        self.call(version, &request)
    }
}
