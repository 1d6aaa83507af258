//! Accepting connections: one task on the first core hands sockets to all cores in turn.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener, ToSocketAddrs};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use super::connection::{Connection, Peer};
use crate::core::Core;

/// Pause after `accept` failed, such as for want of descriptors.
const RETRY: Duration = Duration::from_millis(100);

/// What sockets are given at their birth; connections inherit it from their listener.
#[derive(Clone, Copy, Debug)]
pub struct SocketOptions {
    /// `socket.listen.backlog.size`: connections that the kernel may hold before they are accepted.
    pub backlog: i32,
    /// `socket.send.buffer.bytes`; `None` leaves it to the kernel. A small one keeps what is sent in the CPU's cache.
    pub send_buffer_bytes: Option<usize>,
    /// `socket.receive.buffer.bytes`; `None` leaves it to the kernel.
    pub receive_buffer_bytes: Option<usize>,
}

/// Binds an address; an empty host is every address.
///
/// # Errors
/// The host cannot be resolved, or no address of it can be bound.
pub fn bind(host: &str, port: u16, options: SocketOptions) -> io::Result<StdListener> {
    if host.is_empty() || host == "0.0.0.0" || host == "::" {
        let any_v6 = SocketAddr::from(([0u16; 8], port));
        if host != "0.0.0.0"
            && let Ok(listener) = bind_address(any_v6, options)
        {
            return Ok(listener);
        }
        return bind_address(SocketAddr::from(([0u8; 4], port)), options);
    }
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match bind_address(address, options) {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn bind_address(address: SocketAddr, options: SocketOptions) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    if let Some(bytes) = options.send_buffer_bytes {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(bytes) = options.receive_buffer_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(&address.into())?;
    socket.listen(options.backlog)?;
    Ok(socket.into())
}

/// Accepts on a listener until the core ends.
pub async fn accept(core: Rc<Core>, listener: StdListener, name: Arc<str>) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, listener = %name, "the listener cannot be watched");
            return;
        }
    };
    let mut number = 0;
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                if core.shared.is_stopping() {
                    return;
                }
                let address = unmapped(address);
                if !core.shared.connections.admit(address.ip()) {
                    tracing::info!(peer = %address, "connection refused: max.connections or max.connections.per.ip is reached");
                    continue;
                }
                if let Err(error) = hand_over(&core, stream, address, &name, number) {
                    core.shared.connections.released(address.ip());
                    tracing::debug!(peer = %address, %error, "a connection was lost while it was accepted");
                }
                number += 1;
            }
            Err(error) => {
                tracing::warn!(%error, listener = %name, "accepting failed");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// IPv4 clients of a socket that serves both show as IPv6 addresses.
fn unmapped(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn hand_over(
    core: &Rc<Core>,
    stream: TcpStream,
    address: SocketAddr,
    listener: &Arc<str>,
    number: u64,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_keepalive(true)?;
    let peer =
        Peer { address, local: unmapped(stream.local_addr()?), listener: Arc::clone(listener) };
    let target = core.shared.placement.of_connection(number);
    if target == core.id {
        Connection::start(core, stream, peer);
        return Ok(());
    }
    let stream = stream.into_std()?;
    core.shared.mailbox(target).answer(move |core| match TcpStream::from_std(stream) {
        Ok(stream) => Connection::start(core, stream, peer),
        Err(error) => {
            core.shared.connections.released(peer.address.ip());
            tracing::warn!(%error, "a connection cannot be watched");
        }
    });
    Ok(())
}
