//! Kills a broker with SIGKILL again and again under load, and checks that no acknowledged record is lost, doubled or moved.
//!
//! Each round: idempotent producers, acks=all, several requests in flight, onto a few partitions; a kill at a random moment;
//! a start on the same folder; the producers send again what was not answered, with the same sequences, and go on. At the
//! end (and every [`CHECK_EVERY`] rounds) everything is read and the history checked.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use kafka_protocol::messages::{InitProducerIdRequest, ProduceRequest, ProducerId};

use crate::harness::{Broker, wait_for};
use crate::history::{Event, Outcome, Partition, Process, Rules, Verdict, check};
use crate::wire::batch::{Batch, Record};
use crate::wire::requests::produce_request;
use crate::wire::{Client, create_topic};

const PARTITIONS: i32 = 3;
const PRODUCERS: u32 = 2;
const IN_FLIGHT: usize = 5;
const RECORDS: u64 = 20;
/// Rounds between two readings of everything.
const CHECK_EVERY: u32 = 20;

/// What a run came to.
#[derive(Debug)]
pub struct Outcomes {
    /// Kills.
    pub rounds: u32,
    /// Acknowledged records.
    pub acked: usize,
    /// Batches sent a second time.
    pub resent: u64,
    /// Longest time from the kill until the broker served again.
    pub restart_max: Duration,
    /// What is wrong.
    pub verdicts: BTreeSet<Verdict>,
}

/// One producer on one partition: its batches in order, the unanswered ones ready to be sent again.
struct Lane {
    process: Process,
    partition: i32,
    id: i64,
    sequence: i32,
    next_value: u64,
    /// Sent and not answered: sequence and values.
    pending: VecDeque<(i32, Vec<u64>)>,
}

/// Kills a broker `rounds` times; `seed` gives the moments.
///
/// # Errors
/// The broker does not come back, or answers what it must not.
///
/// # Panics
/// When the broker cannot be started.
pub fn run(rounds: u32, seed: u64, settings: &[(&str, &str)]) -> Result<Outcomes> {
    let mut broker = Broker::start(settings);
    let address = broker.address();
    let topic = create_topic(&mut broker.connect(), "killloop", PARTITIONS);
    let mut lanes = Vec::new();
    for producer in 0..PRODUCERS {
        for partition in 0..PARTITIONS {
            lanes.push(Lane {
                process: producer * 100 + u32::try_from(partition)?,
                partition,
                id: producer_id(&address)?,
                sequence: 0,
                next_value: 0,
                pending: VecDeque::new(),
            });
        }
    }
    let mut random = seed | 1;
    let mut events = Vec::new();
    let mut outcomes = Outcomes {
        rounds,
        acked: 0,
        resent: 0,
        restart_max: Duration::ZERO,
        verdicts: BTreeSet::new(),
    };
    let resent = Arc::new(AtomicU64::new(0));
    for round in 1..=rounds {
        let stop = Arc::new(AtomicBool::new(false));
        let acked = Arc::new(AtomicU64::new(0));
        let running: Vec<JoinHandle<Result<(Lane, Vec<Event>)>>> = lanes
            .drain(..)
            .map(|lane| {
                let (address, topic) = (address.clone(), topic.clone());
                let (stop, acked, resent) = (stop.clone(), acked.clone(), resent.clone());
                std::thread::spawn(move || drive(lane, &address, &topic, &stop, &acked, &resent))
            })
            .collect();
        // Not before something was acknowledged, then at a random moment.
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let answers = 1 + (random >> 33) % 200;
        let loaded = wait_for(Duration::from_secs(60), || {
            (acked.load(Ordering::Relaxed) >= answers
                || running.iter().all(JoinHandle::is_finished))
            .then_some(())
        });
        ensure!(loaded.is_some(), "round {round}: too few answers");
        broker.kill();
        let begin = Instant::now();
        stop.store(true, Ordering::Relaxed);
        for thread in running {
            let (lane, new) =
                thread.join().map_err(|_| anyhow::anyhow!("a producer panicked"))??;
            events.extend(new);
            lanes.push(lane);
        }
        broker.start_again();
        outcomes.restart_max = outcomes.restart_max.max(begin.elapsed());
        if round % CHECK_EVERY == 0 || round == rounds {
            settle(&mut lanes, &address, &topic, &mut events, &resent)?;
            let mut history = events.clone();
            history.extend(read_everything(&address, &topic)?);
            outcomes.verdicts = check(&history, Rules { idempotent: true, dense: true });
            eprintln!(
                "round {round}: {} records, {} faults",
                events.len(),
                outcomes.verdicts.len()
            );
            if !outcomes.verdicts.is_empty() {
                outcomes.rounds = round;
                break;
            }
        }
    }
    outcomes.acked = events.len();
    outcomes.resent = resent.load(Ordering::Relaxed);
    broker.stop();
    Ok(outcomes)
}

fn producer_id(address: &str) -> Result<i64> {
    let mut client = Client::connect(address)?;
    let request = InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_transaction_timeout_ms(60_000)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1);
    wait_for(Duration::from_secs(30), || {
        let answer = client.call(4, &request);
        (answer.error_code == 0).then_some(answer.producer_id.0)
    })
    .context("no producer id")
}

fn batch(lane: &Lane, sequence: i32, values: &[u64]) -> Vec<u8> {
    // Of today: a producer whose newest record is a day old is forgotten, by Apache Kafka as well.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let records = values.iter().map(|value| Record::value(&value.to_string()).at(now)).collect();
    Batch::of(records).from_producer(lane.id, 0, sequence).bytes()
}

/// Sends until told to stop or cut off. Whatever is unanswered stays pending.
fn drive(
    mut lane: Lane,
    address: &str,
    topic: &str,
    stop: &AtomicBool,
    acked: &AtomicU64,
    resent: &AtomicU64,
) -> Result<(Lane, Vec<Event>)> {
    let mut events = Vec::new();
    let Ok(mut client) = Client::connect(address) else { return Ok((lane, events)) };
    let mut sent = VecDeque::new();
    for (sequence, values) in &lane.pending {
        resent.fetch_add(1, Ordering::Relaxed);
        let request = produce_request(topic, lane.partition, -1, batch(&lane, *sequence, values));
        let Ok(id) = client.send(9, &request) else { return Ok((lane, events)) };
        sent.push_back(id);
    }
    loop {
        while sent.len() < IN_FLIGHT && !stop.load(Ordering::Relaxed) {
            let base = u64::from(lane.process) << 40;
            let values: Vec<u64> = (0..RECORDS).map(|n| base + lane.next_value + n).collect();
            lane.next_value += RECORDS;
            let request =
                produce_request(topic, lane.partition, -1, batch(&lane, lane.sequence, &values));
            lane.pending.push_back((lane.sequence, values));
            lane.sequence += i32::try_from(RECORDS)?;
            match client.send(9, &request) {
                Ok(id) => sent.push_back(id),
                Err(_) => return Ok((lane, events)),
            }
        }
        let Some(id) = sent.pop_front() else { return Ok((lane, events)) };
        let Ok(answer) = client.receive::<ProduceRequest>(9, id) else { return Ok((lane, events)) };
        let answer = &answer.responses[0].partition_responses[0];
        match answer.error_code {
            0 => {}
            // Not ready yet after the start: the same again on the next connection.
            3 | 5 | 6 | 7 | 56 => return Ok((lane, events)),
            other => bail!(
                "code {other} ({:?}) for sequence {:?} of {} on partition {}",
                answer.error_message,
                lane.pending.front().map(|(sequence, _)| *sequence),
                lane.id,
                lane.partition
            ),
        }
        let (_, values) = lane.pending.pop_front().context("an answer to nothing")?;
        for (offset, value) in (answer.base_offset..).zip(values) {
            events.push(Event::Send {
                process: lane.process,
                partition: Partition::try_from(lane.partition)?,
                value,
                outcome: Outcome::Acked(Some(offset)),
            });
        }
        acked.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends what is pending until all of it is answered.
fn settle(
    lanes: &mut Vec<Lane>,
    address: &str,
    topic: &str,
    events: &mut Vec<Event>,
    resent: &AtomicU64,
) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(60);
    while lanes.iter().any(|lane| !lane.pending.is_empty()) {
        ensure!(Instant::now() < end, "pending batches are never answered");
        for lane in std::mem::take(lanes) {
            let (stop, acked) = (AtomicBool::new(true), AtomicU64::new(0));
            let (lane, new) = drive(lane, address, topic, &stop, &acked, resent)?;
            events.extend(new);
            lanes.push(lane);
        }
    }
    Ok(())
}

fn read_everything(address: &str, topic: &str) -> Result<Vec<Event>> {
    let mut client = Client::connect(address)?;
    (0..PARTITIONS)
        .map(|partition| {
            let end = client.list_offset(7, topic, partition, -1).offset;
            let (_, records) = client.read_all(topic, partition, 0);
            let records = records
                .into_iter()
                .map(|record| {
                    let text = String::from_utf8(record.value.context("a value")?)?;
                    Ok((record.offset, text.parse()?))
                })
                .collect::<Result<_>>()?;
            Ok(Event::Final { partition: Partition::try_from(partition)?, start: 0, end, records })
        })
        .collect()
}
