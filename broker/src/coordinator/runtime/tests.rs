//! The runtime over a shard that keeps a list of bytes.

use super::*;
use crate::coordinator::shard::ReplayError;
use protocol_compat::ids::ProducerId;

#[derive(Debug, Default)]
struct Letters {
    list: Vec<u8>,
    resumed: Vec<Result<(), ErrorCode>>,
}

#[derive(Debug, PartialEq)]
enum Answer {
    Ok(usize),
    Failed(ErrorCode),
}

impl Shard for Letters {
    type Request = u8;
    type Response = Answer;
    type Undo = ();
    type Continuation = ();

    fn decide(&mut self, _now: Now, token: Token, request: u8, fx: &mut Effects<Answer, ()>) {
        if request == b'?' {
            fx.replies_when_committed.push((token, Answer::Ok(self.list.len())));
            return;
        }
        let key = Bytes::copy_from_slice(&[request]);
        fx.records.push(CoordinatorRecord { key, value: None });
        fx.replies_when_committed.push((token, Answer::Ok(self.list.len())));
        fx.continuations.push(());
    }

    fn replay(&mut self, _: ReplayContext, record: &CoordinatorRecord) -> Result<(), ReplayError> {
        self.list.push(record.key[0]);
        Ok(())
    }

    fn replay_end_transaction(&mut self, _producer: ProducerId, _commit: bool) {}

    fn revert(&mut self, (): ()) {
        self.list.pop();
    }

    fn loaded(&mut self, _now: Now, _fx: &mut Effects<Answer, ()>) {}

    fn unloaded(&mut self, _code: ErrorCode) -> Vec<(Token, Answer)> {
        Vec::new()
    }

    fn resume(
        &mut self,
        _: Now,
        (): (),
        result: Result<(), ErrorCode>,
        _: &mut Effects<Answer, ()>,
    ) {
        self.resumed.push(result);
    }

    fn tick(&mut self, _now: Now, _fx: &mut Effects<Answer, ()>) {}

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn refuse(_request: u8, code: ErrorCode) -> Answer {
        Answer::Failed(code)
    }

    fn fail(_response: Answer, code: ErrorCode) -> Answer {
        Answer::Failed(code)
    }
}

const P: PartitionIndex = PartitionIndex(3);

struct Story {
    runtime: Runtime<Letters>,
    now: Now,
    out: Vec<Action<Answer>>,
    tokens: u64,
}

impl Story {
    fn new() -> Self {
        let now = Now { clock: crate::core::reactor::monotonic(), wall: Timestamp(1) };
        let runtime = Runtime::new(RuntimeConfig::default(), |_, _| Letters::default());
        Self { runtime, now, out: Vec::new(), tokens: 0 }
    }

    fn event(&mut self, event: Event<u8>) -> Vec<Action<Answer>> {
        self.runtime.handle(self.now, P, event, &mut self.out);
        std::mem::take(&mut self.out)
    }

    fn load(&mut self, batches: &[Bytes]) {
        self.event(Event::Load { leader_epoch: LeaderEpoch(1), entropy: 0 });
        for batch in batches {
            self.event(Event::LoadBatches { batches: batch.clone() });
        }
        let end = Offset(0);
        self.event(Event::LoadDone { log_end_offset: end, high_watermark: end });
    }

    fn ask(&mut self, request: u8) -> Vec<Action<Answer>> {
        self.tokens += 1;
        let token = Token(self.tokens);
        self.event(Event::Request { token, request })
    }

    /// Ends the turn and gives the append with its batch.
    fn append(&mut self) -> (AppendId, Bytes) {
        match self.event(Event::TurnEnd).pop() {
            Some(Action::Append { append, batch, .. }) => (append, batch),
            other => panic!("no append: {other:?}"),
        }
    }

    fn shard(&self) -> &Letters {
        &self.runtime.shards[&P].shard
    }
}

fn reply(token: u64, response: Answer) -> Action<Answer> {
    Action::Reply { token: Token(token), response }
}

#[test]
fn requests_before_the_load_is_done_are_refused() {
    let mut story = Story::new();
    assert_eq!(story.ask(b'a'), [reply(1, Answer::Failed(ErrorCode::NotCoordinator))]);
    story.event(Event::Load { leader_epoch: LeaderEpoch(1), entropy: 0 });
    let loading = Answer::Failed(ErrorCode::CoordinatorLoadInProgress);
    assert_eq!(story.ask(b'a'), [reply(2, loading)]);
}

#[test]
fn a_turn_is_one_batch_and_replies_wait_for_the_high_watermark() {
    let mut story = Story::new();
    story.load(&[]);
    assert!(story.ask(b'a').is_empty() && story.ask(b'b').is_empty());
    let (append, batch) = story.append();
    assert_eq!(records(&batch, 1 << 20).expect("batch").count(), 2);
    assert!(story.event(Event::Appended { append, last_offset: Offset(1) }).is_empty());
    // A read that came later sees what was replayed, and waits for it, too.
    assert!(story.ask(b'?').is_empty());
    assert!(story.event(Event::HighWatermark(Offset(1))).is_empty());
    let out = story.event(Event::HighWatermark(Offset(2)));
    assert_eq!(out, [reply(1, Answer::Ok(0)), reply(2, Answer::Ok(1)), reply(3, Answer::Ok(2))]);
    assert_eq!(story.shard().resumed, [Ok(()), Ok(())]);
}

#[test]
fn a_failed_append_never_happened() {
    let mut story = Story::new();
    story.load(&[]);
    story.ask(b'a');
    let (first, _) = story.append();
    story.ask(b'b');
    let (second, _) = story.append();
    story.ask(b'c');
    story.event(Event::Appended { append: first, last_offset: Offset(0) });
    let code = ErrorCode::NotLeaderOrFollower;
    let out = story.event(Event::AppendFailed { append: second, code });
    let failed = || Answer::Failed(ErrorCode::NotCoordinator);
    assert_eq!(out, [reply(2, failed()), reply(3, failed())]);
    assert_eq!(story.shard().list, b"a");
    assert_eq!(story.event(Event::HighWatermark(Offset(1))), [reply(1, Answer::Ok(0))]);
}

#[test]
fn what_was_written_is_loaded_again() {
    let mut story = Story::new();
    story.load(&[]);
    story.ask(b'a');
    story.ask(b'b');
    let (_, batch) = story.append();
    let mut again = Story::new();
    again.load(&[batch]);
    assert_eq!(again.shard().list, b"ab");
}

#[test]
fn an_unloaded_shard_answers_whoever_waits() {
    let mut story = Story::new();
    story.load(&[]);
    story.ask(b'a');
    let out = story.event(Event::Unload);
    assert_eq!(out, [reply(1, Answer::Failed(ErrorCode::NotCoordinator))]);
}

#[test]
fn a_reply_that_waits_too_long_fails_and_the_state_stays() {
    let mut story = Story::new();
    story.load(&[]);
    story.ask(b'a');
    story.append();
    story.now.clock += Duration::from_secs(6);
    let out = story.event(Event::Tick);
    assert_eq!(out, [reply(1, Answer::Failed(ErrorCode::CoordinatorNotAvailable))]);
    assert_eq!(story.shard().list, b"a");
}
