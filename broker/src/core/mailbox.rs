//! How one core reaches another: closures, run in order on the target's thread.
//!
//! Requests are counted and refused at a bound; answers are not, since there is at most one for each request.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use super::Core;

/// What a core is asked to do.
pub type Message = Box<dyn FnOnce(&Rc<Core>) + Send>;

/// Requests that may wait in one mailbox. A request holds a frame that its connection already accounts for.
const REQUESTS_MAX: usize = 65_536;

/// The core's mailbox is full, or the core has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the core that owns the partition is overloaded or stopping")]
pub struct Refused;

/// The sending side of a core's mailbox.
#[derive(Clone, Debug)]
pub struct Mailbox {
    sender: mpsc::UnboundedSender<Message>,
    requests: Arc<AtomicUsize>,
}

/// The receiving side.
#[derive(Debug)]
pub struct Inbox {
    receiver: mpsc::UnboundedReceiver<Message>,
}

/// A mailbox and its inbox.
#[must_use]
pub fn mailbox() -> (Mailbox, Inbox) {
    // Unbounded underneath: answers must always arrive. Requests are bounded by `request`.
    let (sender, receiver) = mpsc::unbounded_channel();
    (Mailbox { sender, requests: Arc::new(AtomicUsize::new(0)) }, Inbox { receiver })
}

impl Mailbox {
    /// Asks for something new.
    ///
    /// # Errors
    /// Too many requests wait, or the core has stopped: nothing will be run.
    pub fn request(&self, message: impl FnOnce(&Rc<Core>) + Send + 'static) -> Result<(), Refused> {
        if self.requests.fetch_add(1, Ordering::Relaxed) >= REQUESTS_MAX {
            self.requests.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused);
        }
        let requests = Arc::clone(&self.requests);
        let counted = move |core: &Rc<Core>| {
            requests.fetch_sub(1, Ordering::Relaxed);
            message(core);
        };
        self.sender.send(Box::new(counted)).map_err(|_| Refused)
    }

    /// Gives back what was asked for, or tells news. A stopped core hears nothing.
    pub fn answer(&self, message: impl FnOnce(&Rc<Core>) + Send + 'static) {
        let _ = self.sender.send(Box::new(message));
    }
}

impl Inbox {
    /// Waits for messages and moves up to `limit` into `into`; 0 when no sender is left.
    pub async fn receive(&mut self, into: &mut Vec<Message>, limit: usize) -> usize {
        self.receiver.recv_many(into, limit).await
    }
}
