//! A small blocking client: one connection, one request at a time, versions as the broker has them.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, RequestHeader, ResponseHeader,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use protocol_compat::ErrorCode;

/// Largest answer that is read.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// The name that the client gives itself.
const CLIENT_ID: &str = "kelda-cli";

/// Why the broker could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No address takes a connection.
    #[error(
        "cannot connect to {bootstrap}: {source}. Is the broker running, and is this its address?"
    )]
    Unreachable {
        /// What was tried.
        bootstrap: String,
        /// What the system said of the last.
        source: io::Error,
    },
    /// No answer in time.
    #[error("{address} did not answer within {timeout:?}")]
    TimedOut {
        /// Who.
        address: String,
        /// How long.
        timeout: Duration,
    },
    /// The connection broke.
    #[error(
        "the connection to {address} broke: {source}. Does it speak the Kafka protocol without TLS?"
    )]
    Broken {
        /// With whom.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The broker has no version of a request that this client has.
    #[error("{address} does not serve request {api_key} in a version that is known here")]
    Unsupported {
        /// Who.
        address: String,
        /// Which request.
        api_key: i16,
    },
    /// An answer that is none.
    #[error("{address} gave an answer that cannot be read: {what}")]
    Malformed {
        /// Who.
        address: String,
        /// What is wrong.
        what: String,
    },
}

/// A connection to a broker.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    address: String,
    timeout: Duration,
    correlation_id: i32,
    versions: BTreeMap<i16, (i16, i16)>,
}

impl Client {
    /// Connects to the first of `bootstrap` (`host:port`, with commas between) that answers, and asks for its versions.
    ///
    /// # Errors
    /// None can be reached, or the one does not speak Kafka's protocol.
    pub fn connect(bootstrap: &str, timeout: Duration) -> Result<Self, ClientError> {
        let mut failure = io::Error::new(io::ErrorKind::InvalidInput, "expected HOST:PORT");
        for address in bootstrap.split(',').map(str::trim).filter(|text| !text.is_empty()) {
            match connect_one(address, timeout) {
                Ok(stream) => {
                    let mut client = Self {
                        stream,
                        address: address.to_owned(),
                        timeout,
                        correlation_id: 0,
                        versions: BTreeMap::new(),
                    };
                    client.ask_versions()?;
                    return Ok(client);
                }
                Err(error) => failure = error,
            }
        }
        Err(ClientError::Unreachable { bootstrap: bootstrap.to_owned(), source: failure })
    }

    /// The newest version of a request that the broker and `max` allow.
    ///
    /// # Errors
    /// There is none.
    pub fn version(&self, api_key: i16, min: i16, max: i16) -> Result<i16, ClientError> {
        let unsupported = || ClientError::Unsupported { address: self.address.clone(), api_key };
        let (oldest, newest) = *self.versions.get(&api_key).ok_or_else(unsupported)?;
        let version = newest.min(max);
        if version < oldest.max(min) { Err(unsupported()) } else { Ok(version) }
    }

    /// Sends a request in the newest version that both sides know and waits for its answer.
    ///
    /// # Errors
    /// The connection breaks, the answer does not come or cannot be read.
    pub fn call<R: Request>(&mut self, request: &R) -> Result<R::Response, ClientError> {
        self.call_up_to(request, i16::MAX)
    }

    /// As [`Client::call`], in a version of at most `max`.
    ///
    /// # Errors
    /// As there.
    pub fn call_up_to<R: Request>(
        &mut self,
        request: &R,
        max: i16,
    ) -> Result<R::Response, ClientError> {
        let known = R::VERSIONS;
        let version = self.version(R::KEY, known.min, known.max.min(max))?;
        self.exchange(request, version)
    }

    /// How many brokers the cluster has, by a Metadata request without topics.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn broker_count(&mut self) -> Result<usize, ClientError> {
        let request = MetadataRequest::default().with_topics(Some(Vec::new()));
        Ok(self.call(&request)?.brokers.len())
    }

    fn ask_versions(&mut self) -> Result<(), ClientError> {
        // Version 0 is understood by every broker, and this client needs nothing that came later.
        let answer: ApiVersionsResponse = self.exchange(&ApiVersionsRequest::default(), 0)?;
        if answer.error_code != 0 {
            return Err(self.malformed(name_of(answer.error_code)));
        }
        self.versions = answer
            .api_keys
            .iter()
            .map(|api| (api.api_key, (api.min_version, api.max_version)))
            .collect();
        Ok(())
    }

    fn exchange<R: Request>(
        &mut self,
        request: &R,
        version: i16,
    ) -> Result<R::Response, ClientError> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let frame = frame(request, version, self.correlation_id, CLIENT_ID)
            .map_err(|error| self.malformed(error.to_string()))?;
        self.stream.write_all(&frame).map_err(|source| self.broken(source))?;
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).map_err(|source| self.broken(source))?;
        let size = usize::try_from(i32::from_be_bytes(size)).unwrap_or(usize::MAX);
        if size > ANSWER_BYTES_MAX {
            return Err(self.malformed(format!("its size is {size}")));
        }
        let mut body = vec![0; size];
        self.stream.read_exact(&mut body).map_err(|source| self.broken(source))?;
        let mut body = Bytes::from(body);
        let header = ResponseHeader::decode(&mut body, R::Response::header_version(version))
            .map_err(|error| self.malformed(error.to_string()))?;
        if header.correlation_id != self.correlation_id {
            return Err(self.malformed("it belongs to another request"));
        }
        R::Response::decode(&mut body, version).map_err(|error| self.malformed(error.to_string()))
    }

    fn malformed(&self, what: impl Into<String>) -> ClientError {
        ClientError::Malformed { address: self.address.clone(), what: what.into() }
    }

    fn broken(&self, source: io::Error) -> ClientError {
        match source.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                ClientError::TimedOut { address: self.address.clone(), timeout: self.timeout }
            }
            _ => ClientError::Broken { address: self.address.clone(), source },
        }
    }
}

/// A request as it goes over the wire, its size in front.
///
/// # Errors
/// The request has fields that the version cannot carry.
pub fn frame<R: Request>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: &str,
) -> Result<BytesMut, Box<dyn std::error::Error + Send + Sync>> {
    let mut frame = BytesMut::new();
    frame.extend_from_slice(&[0; 4]);
    RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(text(client_id)))
        .encode(&mut frame, R::header_version(version))?;
    request.encode(&mut frame, version)?;
    let size = i32::try_from(frame.len() - 4)?;
    frame[..4].copy_from_slice(&size.to_be_bytes());
    Ok(frame)
}

fn connect_one(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// A protocol text.
#[must_use]
pub fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// An error code's name.
#[must_use]
pub fn name_of(code: i16) -> String {
    ErrorCode::from_code(code)
        .map_or_else(|| format!("error {code}"), |code| code.name().to_owned())
}
