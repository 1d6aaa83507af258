//! One connection of a load: a thread with a blocking socket.
//!
//! Closed: as many requests as may be ahead are written at once, then the thread sleeps in a read. Paced: each request has
//! its time, and its latency counts from then, also when the generator or the broker was late.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};

use super::frames::FrameSet;
use crate::cli::client::name_of;

/// Answers come within this, or the load has failed.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Longest data that one call takes; small enough for the CPU's cache.
const DROP_BYTES: usize = 256 << 10;

/// Where a load is.
#[derive(Debug, Default)]
pub(super) struct Phase(AtomicU8);

impl Phase {
    /// Answers are counted, their latencies are not.
    pub(super) const WARM_UP: u8 = 0;
    /// Latencies count.
    pub(super) const MEASURE: u8 = 1;
    /// No new requests.
    pub(super) const STOP: u8 = 2;

    pub(super) fn set(&self, phase: u8) {
        self.0.store(phase, Ordering::Relaxed);
    }

    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a connection has done; read by others while it runs.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) requests: AtomicU64,
    /// Bytes of answers to fetches.
    pub(super) bytes: AtomicU64,
}

/// One connection.
pub(super) struct Worker {
    stream: TcpStream,
    set: Arc<FrameSet>,
    next: usize,
    phase: Arc<Phase>,
    counters: Arc<Counters>,
    sent: VecDeque<Instant>,
    latencies: Histogram<u64>,
    buffer: Vec<u8>,
    filled: usize,
    drop_buffer: Vec<u8>,
}

impl Worker {
    pub(super) fn connect(
        address: SocketAddr,
        set: Arc<FrameSet>,
        number: usize,
        phase: Arc<Phase>,
        counters: Arc<Counters>,
    ) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        // A fetch reads only what it checks, and has the kernel drop the rest.
        let buffer = if set.is_fetch { 4 + prefix(&set) } else { 256 << 10 };
        Ok(Self {
            stream,
            next: number % set.count(),
            phase,
            counters,
            sent: VecDeque::new(),
            latencies: Histogram::new_with_bounds(1, 120_000_000_000, 3)
                .map_err(|error| io::Error::other(error.to_string()))?,
            buffer: vec![0; buffer],
            filled: 0,
            drop_buffer: if set.is_fetch { vec![0; DROP_BYTES] } else { Vec::new() },
            set,
        })
    }

    /// Keeps `in_flight` requests ahead until the load stops, or until `limit` were sent; gives the latencies in nanoseconds.
    pub(super) fn run(
        mut self,
        in_flight: usize,
        limit: Option<u64>,
    ) -> io::Result<Histogram<u64>> {
        let mut left = limit.unwrap_or(u64::MAX);
        loop {
            let stopping = left == 0 || self.phase.get() == Phase::STOP;
            if stopping && self.sent.is_empty() {
                return Ok(self.latencies);
            }
            if !stopping {
                let free =
                    (in_flight - self.sent.len()).min(usize::try_from(left).unwrap_or(usize::MAX));
                left -= u64::try_from(free).unwrap_or(0);
                self.send(free)?;
            }
            if self.set.has_answers {
                self.receive()?;
            } else {
                self.done(self.sent.len());
            }
        }
    }

    /// Sends a request every `interval`, whatever the answers do.
    pub(super) fn run_paced(
        mut self,
        interval: Duration,
        offset: Duration,
    ) -> io::Result<Histogram<u64>> {
        // The default slack of timers, 50 us, would be measured as latency.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let mut due = Instant::now() + offset;
        loop {
            let stopping = self.phase.get() == Phase::STOP;
            if stopping && (self.sent.is_empty() || !self.set.has_answers) {
                return Ok(self.latencies);
            }
            let now = Instant::now();
            if !stopping && now >= due {
                self.send(1)?;
                if let Some(sent) = self.sent.back_mut() {
                    *sent = due;
                }
                due += interval;
                if !self.set.has_answers {
                    self.done(1);
                }
                continue;
            }
            let wait = if stopping { ANSWER_WITHIN } else { due - now };
            let wait = Timespec {
                tv_sec: i64::try_from(wait.as_secs()).unwrap_or(1),
                tv_nsec: wait.subsec_nanos().into(),
            };
            let mut fds = [PollFd::new(&self.stream, PollFlags::IN)];
            match poll(&mut fds, Some(&wait)) {
                Ok(0) if stopping => return Err(io::ErrorKind::TimedOut.into()),
                Ok(0) => {}
                Ok(_) => self.receive()?,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn send(&mut self, count: usize) -> io::Result<()> {
        let mut left = count;
        while left > 0 {
            let (bytes, taken) = self.set.slice(self.next, left);
            let now = Instant::now();
            self.stream.write_all(bytes)?;
            self.sent.extend(std::iter::repeat_n(now, taken));
            self.next = (self.next + taken) % self.set.count();
            left -= taken;
        }
        Ok(())
    }

    /// Reads until at least one answer is whole.
    fn receive(&mut self) -> io::Result<()> {
        let before = self.sent.len();
        while self.sent.len() == before && !self.sent.is_empty() {
            let read = self.stream.read(&mut self.buffer[self.filled..]).map_err(named)?;
            if read == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the broker closed the connection",
                ));
            }
            self.filled += read;
            if self.set.is_fetch { self.take_fetch()? } else { self.take_answers()? }
        }
        Ok(())
    }

    fn take_answers(&mut self) -> io::Result<()> {
        let mut at = 0;
        let mut count = 0;
        while let Some(size) = answer_size(&self.buffer[at..self.filled])? {
            if self.filled - at < 4 + size {
                if 4 + size > self.buffer.len() {
                    self.buffer.resize(4 + size, 0);
                }
                break;
            }
            check(&self.set, &self.buffer[at + 4..at + 4 + size])?;
            at += 4 + size;
            count += 1;
        }
        if count > 0 {
            self.buffer.copy_within(at..self.filled, 0);
            self.filled -= at;
            self.done(count);
        }
        Ok(())
    }

    /// Checks the beginning of an answer and reads the rest over and over into one buffer, or drops it where it is: with
    /// `MSG_TRUNC` nothing is copied.
    fn take_fetch(&mut self) -> io::Result<()> {
        if self.filled < self.buffer.len() {
            return Ok(());
        }
        let size = answer_size(&self.buffer)?.unwrap_or(0);
        let prefix = self.buffer.len() - 4;
        if size < prefix {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a fetch brought nothing"));
        }
        check(&self.set, &self.buffer[4..])?;
        let mut left = size - prefix;
        while left > 0 {
            let want = left.min(self.drop_buffer.len());
            let flags = if self.set.is_discarding {
                RecvFlags::TRUNC | RecvFlags::WAITALL
            } else {
                RecvFlags::empty()
            };
            let (dropped, _) = recv(&self.stream, &mut self.drop_buffer[..want], flags)
                .map_err(|error| named(error.into()))?;
            if dropped == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= dropped.min(left);
        }
        self.filled = 0;
        self.counters.bytes.fetch_add(u64::try_from(size).unwrap_or(0), Ordering::Relaxed);
        self.done(1);
        Ok(())
    }

    fn done(&mut self, count: usize) {
        let now = Instant::now();
        let counts = self.phase.get() == Phase::MEASURE;
        for _ in 0..count {
            let Some(sent) = self.sent.pop_front() else { break };
            if counts {
                let nanos = u64::try_from(now.saturating_duration_since(sent).as_nanos());
                self.latencies.saturating_record(nanos.unwrap_or(u64::MAX));
            }
        }
        self.counters.requests.fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
    }
}

fn named(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within {} s", ANSWER_WITHIN.as_secs()),
        ),
        _ => error,
    }
}

/// Bytes of an answer that are read before the rest is dropped.
fn prefix(set: &FrameSet) -> usize {
    set.error_offsets.iter().max().map_or(8, |offset| offset + 2)
}

fn answer_size(bytes: &[u8]) -> io::Result<Option<usize>> {
    let Some(size) = bytes.first_chunk::<4>() else { return Ok(None) };
    match usize::try_from(i32::from_be_bytes(*size)) {
        Ok(size) if size <= 1 << 30 => Ok(Some(size)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "an answer has an impossible size")),
    }
}

fn check(set: &FrameSet, answer: &[u8]) -> io::Result<()> {
    for &offset in &set.error_offsets {
        let code =
            answer.get(offset..offset + 2).map(|bytes| i16::from_be_bytes([bytes[0], bytes[1]]));
        match code {
            Some(0) => {}
            Some(code) => {
                return Err(io::Error::other(format!("the broker answered {}", name_of(code))));
            }
            None => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer is too short"));
            }
        }
    }
    Ok(())
}
