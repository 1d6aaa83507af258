//! A data directory changes hands between Apache Kafka and Kelda and back: topics, ids, configs, records, producers' sequences,
//! log starts and committed offsets are all there, and Kafka's own tool reads every file that Kelda wrote.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use integration::harness::{Broker, Kind, kafka_script, run, wait_for};
use integration::wire::batch::{Batch, Record};
use integration::wire::requests::{text, topic_name};
use integration::wire::{Client, create_topic_with};
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::{
    DeleteRecordsRequest, DescribeConfigsRequest, FindCoordinatorRequest, GroupId,
    InitProducerIdRequest, OffsetCommitRequest, OffsetFetchRequest, ProducerId,
};
use uuid::Uuid;

const PARTITIONS: i32 = 2;
const LIMIT: Duration = Duration::from_secs(60);

/// What must be there, whoever runs.
struct Expected {
    topic: String,
    id: Uuid,
    producer: i64,
    values: Vec<Vec<String>>,
    starts: Vec<i64>,
    committed: i64,
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("before the year 292 million")
}

impl Expected {
    fn new(client: &mut Client, prefix: &str) -> Self {
        let configs = [("segment.bytes", "1048576"), ("max.message.bytes", "234567")];
        let topic = create_topic_with(client, prefix, PARTITIONS, &configs);
        let id = client.metadata(12, &[&topic], false).topics[0].topic_id;
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(60_000)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        let producer = wait_for(LIMIT, || {
            let answer = client.call(4, &request);
            (answer.error_code == 0).then_some(answer.producer_id.0)
        });
        let count = usize::try_from(PARTITIONS).expect("small");
        Self {
            topic,
            id,
            producer: producer.expect("a producer id"),
            values: vec![Vec::new(); count],
            starts: vec![0; count],
            committed: 0,
        }
    }

    /// Writes enough for several segments, as one producer that goes on where it was.
    fn write(&mut self, client: &mut Client, label: &str) {
        for (partition, values) in (0..).zip(&mut self.values) {
            for n in 0..30 {
                let sequence = i32::try_from(values.len()).expect("few");
                let new: Vec<String> = (0..4)
                    .map(|m| format!("{label}-{partition}-{n}-{m}-{}", "x".repeat(25_000)))
                    .collect();
                let records = new.iter().map(|v| Record::keyed("k", v).at(now_ms())).collect();
                let batch = Batch::of(records).from_producer(self.producer, 0, sequence);
                let answer = client.produce(&self.topic, partition, batch.bytes());
                let due = i64::from(sequence);
                assert_eq!(
                    (answer.error_code, answer.base_offset),
                    (0, due),
                    "{label}: {answer:?}"
                );
                // The same again is a duplicate.
                if n == 0 {
                    let again = client.produce(&self.topic, partition, batch.bytes());
                    assert_eq!(
                        (again.error_code, again.base_offset),
                        (0, due),
                        "{label}: {again:?}"
                    );
                }
                values.extend(new);
            }
        }
    }

    /// Moves the start of partition 1. It is written down now and then and at a clean stop, so a kill may bring it back.
    fn delete_records(&mut self, client: &mut Client) {
        self.starts[1] += 30;
        let partition =
            DeleteRecordsPartition::default().with_partition_index(1).with_offset(self.starts[1]);
        let topic = DeleteRecordsTopic::default()
            .with_name(topic_name(&self.topic))
            .with_partitions(vec![partition]);
        let request =
            DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000);
        let answer = client.call(2, &request);
        assert_eq!(answer.topics[0].partitions[0].error_code, 0, "{answer:?}");
    }

    fn commit(&mut self, client: &mut Client) {
        self.committed += 11;
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(0)
            .with_committed_offset(self.committed)
            .with_committed_leader_epoch(0)
            .with_committed_metadata(Some(text("kept")));
        let topic = OffsetCommitRequestTopic::default()
            .with_name(topic_name(&self.topic))
            .with_partitions(vec![partition]);
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(text("handover")))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic]);
        self.coordinator(client);
        let done = wait_for(LIMIT, || {
            let code = client.call(7, &request).topics[0].partitions[0].error_code;
            assert!([0, 14, 15, 16].contains(&code), "commit: {code}");
            (code == 0).then_some(())
        });
        assert!(done.is_some(), "committed");
    }

    fn coordinator(&self, client: &mut Client) {
        let find = FindCoordinatorRequest::default().with_key(text("handover"));
        let found = wait_for(LIMIT, || (client.call(3, &find).error_code == 0).then_some(()));
        assert!(found.is_some(), "a coordinator for {}", self.topic);
    }

    fn check(&self, client: &mut Client, who: &str) {
        let metadata = client.metadata(12, &[&self.topic], false);
        assert_eq!(metadata.topics[0].error_code, 0, "{who}");
        assert_eq!(metadata.topics[0].topic_id, self.id, "{who}: the id");
        assert_eq!(metadata.topics[0].partitions.len(), self.values.len(), "{who}");
        let served = wait_for(LIMIT, || {
            (0..PARTITIONS)
                .all(|p| client.list_offset(7, &self.topic, p, -1).error_code == 0)
                .then_some(())
        });
        assert!(served.is_some(), "{who} leads");
        for (partition, values) in (0..).zip(&self.values) {
            let start = self.starts[usize::try_from(partition).expect("small")];
            let first = client.list_offset(7, &self.topic, partition, -2).offset;
            assert_eq!(first, start, "{who}: log start of {partition}");
            let end = client.list_offset(7, &self.topic, partition, -1).offset;
            assert_eq!(end, i64::try_from(values.len()).expect("few"), "{who}: end of {partition}");
            let (_, records) = client.read_all(&self.topic, partition, start);
            let expected = &values[usize::try_from(start).expect("small")..];
            assert_eq!(records.len(), expected.len(), "{who}: records of {partition}");
            for (record, (offset, value)) in records.iter().zip((start..).zip(expected)) {
                assert_eq!(record.offset, offset, "{who}");
                assert_eq!(record.value.as_deref(), Some(value.as_bytes()), "{who} at {offset}");
            }
        }
        let resource = DescribeConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text(&self.topic))
            .with_configuration_keys(Some(vec![text("max.message.bytes"), text("segment.bytes")]));
        let answer =
            client.call(4, &DescribeConfigsRequest::default().with_resources(vec![resource]));
        let mut values: Vec<&str> =
            answer.results[0].configs.iter().filter_map(|c| c.value.as_deref()).collect();
        values.sort_unstable();
        assert_eq!(values, ["1048576", "234567"], "{who}: configs");
        if self.committed > 0 {
            self.coordinator(client);
            let topic = OffsetFetchRequestTopic::default()
                .with_name(topic_name(&self.topic))
                .with_partition_indexes(vec![0]);
            let request = OffsetFetchRequest::default()
                .with_group_id(GroupId(text("handover")))
                .with_topics(Some(vec![topic]));
            let answer = wait_for(LIMIT, || {
                let answer = client.call(6, &request);
                (answer.error_code == 0).then_some(answer)
            });
            let answer = answer.expect("offsets are loaded");
            let partition = &answer.topics[0].partitions[0];
            assert_eq!(partition.committed_offset, self.committed, "{who}: committed offset");
            assert_eq!(partition.metadata.as_deref(), Some("kept"), "{who}");
        }
    }

    fn work(&mut self, client: &mut Client, who: &str) {
        self.check(client, who);
        self.write(client, who);
        self.commit(client);
        self.check(client, who);
    }
}

/// Files below `folder` with one of these endings.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, endings));
        } else if path.extension().is_some_and(|e| endings.iter().any(|end| e == *end)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Kafka's `DumpLogSegments` reads every log, index and snapshot without a complaint.
fn dump(data: &Path) {
    let dump = |paths: &[PathBuf], options: &[&str]| {
        let names = paths.iter().fold(String::new(), |mut all, path| {
            write!(all, "{}{}", if all.is_empty() { "" } else { "," }, path.display())
                .expect("text");
            all
        });
        let mut command = kafka_script();
        command.args(["tool", "org.apache.kafka.tools.DumpLogSegments"]).args(options);
        command.args(["--files", &names]);
        let printed = run(&command, Duration::from_secs(120)).expect("DumpLogSegments");
        let complaints: Vec<&str> = printed
            .lines()
            .filter(|line| {
                let line = line.to_lowercase();
                [
                    "mismatch",
                    "corrupt",
                    "isvalid: false",
                    "invalid",
                    "non-consecutive",
                    "out of order",
                    "not in ",
                ]
                .iter()
                .any(|word| line.contains(word))
            })
            .take(10)
            .collect();
        assert!(complaints.is_empty(), "{complaints:#?}");
        for path in paths {
            assert!(printed.contains(&format!("Dumping {}", path.display())), "{}", path.display());
        }
        printed
    };
    let of = |all: Vec<PathBuf>, prefix: &str| -> Vec<PathBuf> {
        let inside = |path: &PathBuf| {
            path.parent()
                .and_then(Path::file_name)
                .is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        };
        all.into_iter().filter(inside).collect()
    };
    let all = || files(data, &["log", "index", "timeindex", "snapshot"]);
    let records = of(all(), "handover");
    assert!(records.iter().filter(|p| p.extension().is_some_and(|e| e == "log")).count() > 4);
    let printed = dump(&records, &["--deep-iteration"]);
    assert!(printed.contains("baseOffset: 0 lastOffset: 3 "), "batches are looked at");
    let indexes = of(files(data, &["index"]), "handover");
    let printed = dump(&indexes, &["--index-sanity-check"]);
    assert_eq!(printed.matches("passed sanity check").count(), indexes.len(), "{printed}");
    let offsets = of(files(data, &["log"]), "__consumer_offsets");
    if !offsets.is_empty() {
        let printed = dump(&offsets, &["--deep-iteration", "--offsets-decoder"]);
        assert!(printed.contains("handover"), "committed offsets are decoded");
    }
    dump(&of(files(data, &["log"]), "__cluster_metadata"), &["--cluster-metadata-decoder"]);
}

#[test]
fn kafka_to_kelda_and_back() {
    let mut broker = Broker::start_kind(Kind::Kafka, &[]);
    let mut client = broker.connect();
    let mut expected = Expected::new(&mut client, "handover");
    expected.write(&mut client, "kafka");
    expected.commit(&mut client);
    expected.check(&mut client, "kafka");
    broker.stop();

    broker.become_kind(Kind::Kelda);
    broker.start_again();
    expected.work(&mut broker.connect(), "kelda");
    expected.delete_records(&mut broker.connect());
    expected.check(&mut broker.connect(), "kelda");
    let second = {
        let mut client = broker.connect();
        let mut second = Expected::new(&mut client, "handover-kelda");
        second.write(&mut client, "kelda");
        second
    };
    broker.stop();
    dump(&broker.data());

    broker.become_kind(Kind::Kafka);
    broker.start_again();
    second.check(&mut broker.connect(), "kafka again");
    expected.work(&mut broker.connect(), "kafka again");
    broker.stop();

    broker.become_kind(Kind::Kelda);
    broker.start_again();
    expected.check(&mut broker.connect(), "kelda again");
    second.check(&mut broker.connect(), "kelda again");
    broker.stop();
}

#[test]
fn kafka_takes_over_from_a_killed_kelda_and_the_other_way_round() {
    let mut broker = Broker::start_kind(Kind::Kelda, &[]);
    let mut client = broker.connect();
    let mut expected = Expected::new(&mut client, "handover");
    expected.work(&mut client, "kelda");
    broker.kill();
    broker.start_again();
    expected.check(&mut broker.connect(), "kelda after a kill");
    expected.write(&mut broker.connect(), "kelda after a kill");
    broker.kill();

    broker.become_kind(Kind::Kafka);
    broker.start_again();
    expected.work(&mut broker.connect(), "kafka after a kill of kelda");
    broker.kill();

    broker.become_kind(Kind::Kelda);
    broker.start_again();
    expected.work(&mut broker.connect(), "kelda after a kill of kafka");
    broker.stop();
    dump(&broker.data());
}
