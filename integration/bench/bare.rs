//! The least that a server can do, measured on the same machine: it waits for sockets, reads a request without looking at it,
//! and answers bytes that it has at hand or that lie in the page cache. What a broker does more is its own.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::time::{ClockId, clock_gettime};

/// Bytes of a request, about those of a Fetch.
const REQUEST: usize = 115;
/// Kafka's default buffers, which the brokers have, too.
const SOCKET_BUFFER: usize = 102_400;
const CONNECTIONS: usize = 2;
const RUN: Duration = Duration::from_secs(3);

/// What a bare server reaches for each of its CPU-seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bare {
    /// Answers.
    pub(crate) answers_per_cpu_s: f64,
    /// Megabytes of answers.
    pub(crate) mb_per_cpu_s: f64,
}

/// Two connections, one request of each in flight, answers of `answer` bytes: from memory, or from `file` where one is given.
pub(crate) fn measure(answer: usize, file: Option<&Path>) -> anyhow::Result<Bare> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    rustix::net::sockopt::set_socket_send_buffer_size(&listener, SOCKET_BUFFER)?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, SOCKET_BUFFER)?;
    let address = listener.local_addr()?;
    let file = file.map(File::open).transpose()?;
    let server = std::thread::spawn(move || serve(&listener, answer, file.as_ref()));
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| std::thread::spawn(move || ask(TcpStream::connect(address)?, answer)))
        .collect();
    for client in clients {
        client.join().expect("a client does not panic")?;
    }
    server.join().expect("the server does not panic")
}

fn ask(mut socket: TcpStream, answer: usize) -> anyhow::Result<()> {
    socket.set_nodelay(true)?;
    let mut buffer = vec![0; answer.max(REQUEST)];
    let start = Instant::now();
    while start.elapsed() < RUN {
        socket.write_all(&buffer[..REQUEST])?;
        socket.read_exact(&mut buffer[..answer])?;
    }
    Ok(())
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn serve(listener: &TcpListener, answer: usize, file: Option<&File>) -> anyhow::Result<Bare> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut sockets = Vec::new();
    for at in 0..CONNECTIONS {
        let (socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        let data = epoll::EventData::new_u64(at as u64);
        epoll::add(&poll, &socket, data, epoll::EventFlags::IN)?;
        sockets.push(socket);
    }
    let bytes = vec![0; answer];
    let mut request = [0; 4096];
    let mut events = Vec::with_capacity(CONNECTIONS);
    let (start, mut answers, mut open) = (cpu(), 0_u32, CONNECTIONS);
    while open > 0 {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            let socket = &sockets[usize::try_from(event.data.u64())?];
            if rustix::net::recv(socket, &mut request, RecvFlags::empty())?.0 == 0 {
                epoll::delete(&poll, socket)?;
                open -= 1;
                continue;
            }
            match file {
                Some(file) => send_file(socket, file, answer)?,
                None => {
                    let mut rest = &bytes[..];
                    while !rest.is_empty() {
                        let sent = rustix::net::send(socket.as_fd(), rest, SendFlags::NOSIGNAL)?;
                        rest = &rest[sent..];
                    }
                }
            }
            answers += 1;
        }
    }
    let seconds = (cpu() - start).as_secs_f64();
    let answers_per_cpu_s = f64::from(answers) / seconds;
    let mb_per_cpu_s = answers_per_cpu_s * f64::from(u32::try_from(answer)?) / 1e6;
    Ok(Bare { answers_per_cpu_s, mb_per_cpu_s })
}

fn send_file(socket: &TcpStream, file: &File, answer: usize) -> anyhow::Result<()> {
    let (mut offset, mut left) = (0, answer);
    while left > 0 {
        match rustix::fs::sendfile(socket, file, Some(&mut offset), left) {
            Ok(sent) => left -= sent.min(left),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
