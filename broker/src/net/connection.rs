//! One client connection: cuts frames, hands them to the APIs, sends answers in order.
//!
//! The connection's task handles requests one after another and waits for each, as Kafka mutes a channel; only Produce is
//! answered later, from the owner of its partitions, while the next requests are read. Sending is the turn's: answers of
//! one turn leave in one system call. A task of its own waits where the socket is full.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

use super::out_queue::{OutQueue, Sent};
use super::replies::{PlaceId, Replies};
use crate::api;
use crate::api::produce::PendingProduce;
use crate::core::Core;

/// Bytes that may wait to be sent before the next request is looked at.
const OUT_BYTES_MAX: usize = 4 << 20;
/// Produce requests that may wait for their partitions before the next request is looked at.
const PLACES_MAX: usize = 256;
/// Least size of a read buffer.
const READ_BYTES_MIN: usize = 16 << 10;
/// A read buffer of large frames holds as many whole frames as fit in this.
const READ_BYTES_LARGE: usize = 128 << 10;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub enum CloseReason {
    /// The peer closed it.
    #[error("the peer closed the connection")]
    Eof,
    /// The socket failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A frame length that is negative or above `socket.request.max.bytes`.
    #[error("a frame of {0} bytes is not between 0 and socket.request.max.bytes")]
    FrameLength(i32),
    /// A request that cannot be read, or that is not served.
    #[error("{0}")]
    BadRequest(String),
    /// A Produce request with acks=0 failed: there is no answer to say so in.
    #[error("a request without acknowledgement failed: {0}")]
    Unacknowledged(&'static str),
    /// Nothing came for `connections.max.idle.ms`, or the broker stops.
    #[error("closed by the broker: idle, or stopping")]
    Closed,
}

/// What is known of the peer.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Where it connects from.
    pub address: SocketAddr,
    /// The address it reached us by.
    pub local: SocketAddr,
    /// The listener's name, such as `PLAINTEXT`.
    pub listener: Arc<str>,
}

#[derive(Debug, Default)]
struct Sending {
    replies: Replies,
    out: OutQueue,
    /// A task waits until the socket is writable.
    blocked: bool,
    closed: bool,
}

/// A connection; owned by the core that serves it.
#[derive(Debug)]
pub struct Connection {
    /// Unique on this core.
    pub number: u64,
    /// The other side.
    pub peer: Peer,
    writer: OwnedWriteHalf,
    sending: RefCell<Sending>,
    /// Something left: there may be room again.
    room: Notify,
    end: Notify,
    /// On the turn's list of connections to send on.
    queued: Cell<bool>,
    last_active: Cell<Instant>,
}

impl Connection {
    /// Starts serving a socket on this core.
    pub fn start(core: &Rc<Core>, stream: TcpStream, peer: Peer) {
        let number = core.next_connection_number();
        let (reader, writer) = stream.into_split();
        let connection = Rc::new(Self {
            number,
            peer,
            writer,
            sending: RefCell::default(),
            room: Notify::new(),
            end: Notify::new(),
            queued: Cell::new(false),
            last_active: Cell::new(core.now()),
        });
        core.connections.borrow_mut().insert(number, Rc::clone(&connection));
        let core = Rc::clone(core);
        tokio::task::spawn_local(async move {
            let reason = connection.serve(&core, reader).await;
            match &reason {
                CloseReason::Eof | CloseReason::Closed | CloseReason::Io(_) => {
                    tracing::debug!(peer = %connection.peer.address, %reason, "connection ended");
                }
                CloseReason::FrameLength(_)
                | CloseReason::BadRequest(_)
                | CloseReason::Unacknowledged(_) => {
                    tracing::info!(peer = %connection.peer.address, %reason, "connection closed");
                }
            }
            connection.flush_last();
            connection.shut();
            core.connections.borrow_mut().remove(&number);
            core.shared.connections.released(connection.peer.address.ip());
        });
    }

    async fn serve(self: &Rc<Self>, core: &Rc<Core>, mut reader: OwnedReadHalf) -> CloseReason {
        let mut input = Input::default();
        let limit = core.config().socket_request_max_bytes;
        loop {
            loop {
                let frame = match input.next_frame(limit) {
                    Ok(Some(frame)) => frame,
                    Ok(None) => break,
                    Err(reason) => return reason,
                };
                if self.is_crowded() {
                    self.wait_for_room().await;
                }
                core.in_flight.below(core.in_flight_max()).await;
                if let Err(reason) = api::handle(core, self, frame).await {
                    return reason;
                }
                if self.is_closed() {
                    return CloseReason::Closed;
                }
            }
            tokio::select! {
                biased;
                read = input.read(&mut reader) => match read {
                    Ok(0) => return CloseReason::Eof,
                    Ok(_) => {
                        core.read_clocks();
                        self.last_active.set(core.now());
                    }
                    Err(error) => return error.into(),
                },
                () = self.end.notified() => return CloseReason::Closed,
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.sending.borrow().closed
    }

    fn is_crowded(&self) -> bool {
        let sending = self.sending.borrow();
        !sending.closed
            && (sending.out.len() >= OUT_BYTES_MAX || sending.replies.len() >= PLACES_MAX)
    }

    async fn wait_for_room(&self) {
        while self.is_crowded() {
            self.room.notified().await;
        }
    }

    /// Takes the place of the next answer.
    #[must_use]
    pub fn reserve(&self) -> PlaceId {
        self.sending.borrow_mut().replies.reserve()
    }

    /// The place that the next answer would take.
    #[must_use]
    pub fn next_place(&self) -> PlaceId {
        self.sending.borrow().replies.next_place()
    }

    /// Takes the next place for a Produce request.
    pub fn reserve_produce(&self, pending: Rc<PendingProduce>) {
        self.sending.borrow_mut().replies.reserve_produce(pending);
    }

    /// Gives the answer of a place; it is sent at the end of the turn, when those before it are there.
    pub fn complete(
        self: &Rc<Self>,
        core: &Core,
        place: PlaceId,
        write: impl FnOnce(&mut OutQueue),
    ) {
        let mut sending = self.sending.borrow_mut();
        if sending.closed {
            return;
        }
        let Sending { replies, out, .. } = &mut *sending;
        replies.complete(place, out, write);
        if !out.is_empty() && !self.queued.replace(true) {
            core.turn.send_on(Rc::clone(self));
        }
    }

    /// Sends what is ready: called by the turn.
    pub fn pump(self: &Rc<Self>) {
        self.queued.set(false);
        let mut sending = self.sending.borrow_mut();
        if sending.blocked || sending.closed {
            return;
        }
        match sending.out.send(self.writer.as_ref().as_fd()) {
            Ok(Sent::All) => self.room.notify_waiters(),
            Ok(Sent::Full) => {
                sending.blocked = true;
                let this = Rc::clone(self);
                tokio::task::spawn_local(async move { this.send_when_writable().await });
            }
            Err(error) => {
                tracing::debug!(peer = %self.peer.address, %error, "sending failed");
                drop(sending);
                self.shut();
            }
        }
    }

    async fn send_when_writable(self: Rc<Self>) {
        loop {
            // A connection that is shut is writable, too.
            let ready = self.writer.writable().await;
            let result = ready.and_then(|()| {
                let mut sending = self.sending.borrow_mut();
                let socket = self.writer.as_ref();
                socket.try_io(tokio::io::Interest::WRITABLE, || {
                    match sending.out.send(socket.as_fd())? {
                        Sent::All => Ok(()),
                        Sent::Full => Err(std::io::ErrorKind::WouldBlock.into()),
                    }
                })
            });
            match result {
                Ok(()) => {
                    self.sending.borrow_mut().blocked = false;
                    self.room.notify_waiters();
                    return;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.room.notify_waiters();
                }
                Err(_) => {
                    self.shut();
                    return;
                }
            }
            if self.is_closed() {
                return;
            }
        }
    }

    /// Sends what is ready before the socket is closed, such as the error answer to the last request.
    fn flush_last(&self) {
        let mut sending = self.sending.borrow_mut();
        if !sending.blocked && !sending.closed {
            let _ = sending.out.send(self.writer.as_ref().as_fd());
        }
    }

    /// Asks the connection's task to end.
    pub fn close(&self) {
        self.end.notify_one();
    }

    /// When the peer last sent something.
    #[must_use]
    pub fn last_active(&self) -> Instant {
        self.last_active.get()
    }

    /// Whether answers are owed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let sending = self.sending.borrow();
        sending.replies.len() > 0 || !sending.out.is_empty()
    }

    /// Produce requests past their time-out.
    #[must_use]
    pub fn overdue_produces(&self, now: Instant) -> Vec<Rc<PendingProduce>> {
        let sending = self.sending.borrow();
        sending
            .replies
            .pending_produces()
            .filter(|pending| pending.deadline <= now)
            .map(Rc::clone)
            .collect()
    }

    fn shut(&self) {
        let mut sending = self.sending.borrow_mut();
        sending.closed = true;
        sending.replies.clear();
        sending.out = OutQueue::default();
        drop(sending);
        let _ = rustix::net::shutdown(self.writer.as_ref().as_fd(), rustix::net::Shutdown::Both);
        self.room.notify_waiters();
        self.end.notify_one();
    }
}

/// Bytes that came in and are not yet a whole frame.
#[derive(Debug, Default)]
struct Input {
    buffer: BytesMut,
    /// Size of the last frame with its length field: the next ones are likely as large.
    frame_size: usize,
}

impl Input {
    /// Cuts the next frame, without its length field.
    fn next_frame(&mut self, limit: usize) -> Result<Option<Bytes>, CloseReason> {
        let Some(length) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let length = i32::from_be_bytes(*length);
        let size = usize::try_from(length).map_err(|_| CloseReason::FrameLength(length))?;
        if size > limit {
            return Err(CloseReason::FrameLength(length));
        }
        if self.buffer.len() < size + 4 {
            return Ok(None);
        }
        self.buffer.advance(4);
        self.frame_size = size + 4;
        Ok(Some(self.buffer.split_to(size).freeze()))
    }

    /// How many bytes the next read should ask for. A peer that claims a large frame makes us hold at most twice what it sent.
    fn read_size(&self) -> usize {
        let have = self.buffer.len();
        let claimed = self.buffer.first_chunk::<4>().map(|length| {
            usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0).saturating_add(4)
        });
        match claimed {
            Some(size) if size > have => {
                let missing = size - have;
                let room = missing.min(READ_BYTES_MIN.max(self.frame_size).max(have));
                if room == missing && missing < READ_BYTES_MIN && self.frame_size < READ_BYTES_MIN {
                    READ_BYTES_MIN
                } else {
                    room
                }
            }
            _ if self.frame_size >= READ_BYTES_MIN => {
                // Whole frames: a partial one at the end would have to be copied to the next buffer.
                (READ_BYTES_LARGE / self.frame_size).max(1) * self.frame_size - have.min(4)
            }
            _ => READ_BYTES_MIN,
        }
    }

    async fn read(&mut self, reader: &mut OwnedReadHalf) -> std::io::Result<usize> {
        if self.buffer.is_empty() {
            // An idle connection holds no buffer.
            self.buffer = BytesMut::new();
            reader.readable().await?;
        }
        let size = self.read_size();
        self.buffer.reserve(size);
        reader.read_buf(&mut (&mut self.buffer).limit(size)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(bytes: &[u8]) -> Input {
        Input { buffer: BytesMut::from(bytes), frame_size: 0 }
    }

    #[test]
    fn frames_are_cut_where_their_lengths_say() {
        let mut input = input(&[0, 0, 0, 2, 7, 8, 0, 0, 0, 0, 0, 0]);
        assert_eq!(input.next_frame(10).expect("frame").expect("whole"), &[7, 8][..]);
        assert_eq!(input.next_frame(10).expect("frame").expect("whole"), &[][..]);
        assert!(input.next_frame(10).expect("no error").is_none());
    }

    #[test]
    fn lengths_out_of_bounds_end_the_connection() {
        assert!(matches!(
            input(&[255, 255, 255, 255]).next_frame(10),
            Err(CloseReason::FrameLength(-1))
        ));
        assert!(matches!(input(&[0, 0, 0, 11]).next_frame(10), Err(CloseReason::FrameLength(11))));
    }

    #[test]
    fn a_claimed_length_reserves_no_more_than_was_sent() {
        assert_eq!(input(&[0x7f, 0, 0, 0]).read_size(), READ_BYTES_MIN);
        let mut half = input(&[0x7f, 0, 0, 0]);
        half.buffer.resize(1 << 20, 0);
        assert_eq!(half.read_size(), 1 << 20);
    }

    #[test]
    fn equal_frames_are_read_whole() {
        let mut equal = input(&[]);
        equal.frame_size = 50_004;
        assert_eq!(equal.read_size(), 2 * 50_004);
    }
}
