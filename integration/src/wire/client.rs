//! One connection.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{
    ApiVersionsRequest, MetadataRequest, RequestHeader, ResponseHeader,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

/// How long an answer may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to a broker.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    correlation_id: i32,
}

impl Client {
    /// Connects to HOST:PORT.
    ///
    /// # Errors
    /// Refused.
    pub fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| address.to_owned())?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, correlation_id: 0 })
    }

    /// Sends a request and gives its answer, decoded in the same version.
    ///
    /// # Panics
    /// When the connection ends or the answer is not one: tests want that loud.
    pub fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        self.try_call(version, request)
            .unwrap_or_else(|error| panic!("key {} version {version}: {error:#}", R::KEY))
    }

    /// As [`Self::call`].
    ///
    /// # Errors
    /// The connection ends, or the answer cannot be decoded or has bytes left.
    pub fn try_call<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response> {
        let correlation_id = self.send(version, request)?;
        self.receive::<R>(version, correlation_id)
    }

    /// Sends a request; gives its correlation id.
    ///
    /// # Errors
    /// It cannot be encoded, or the connection has ended.
    pub fn send<R: Request>(&mut self, version: i16, request: &R) -> Result<i32> {
        let mut body = BytesMut::new();
        request.encode(&mut body, version)?;
        self.send_body(R::KEY, version, R::header_version(version), &body)
    }

    /// Sends a body of any bytes behind a correct header; gives its correlation id.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn send_body(
        &mut self,
        key: i16,
        version: i16,
        header_version: i16,
        body: &[u8],
    ) -> Result<i32> {
        self.correlation_id += 1;
        let frame = frame(key, version, header_version, self.correlation_id, body)?;
        self.send_bytes(&frame)?;
        Ok(self.correlation_id)
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes)?)
    }

    /// The answer to the request with this correlation id, which must be the next one.
    ///
    /// # Errors
    /// The connection ends, another answer comes, or it cannot be decoded to its last byte.
    pub fn receive<R: Request>(
        &mut self,
        version: i16,
        correlation_id: i32,
    ) -> Result<R::Response> {
        let mut frame = self.read_frame()?;
        let header = ResponseHeader::decode(&mut frame, R::Response::header_version(version))?;
        if header.correlation_id != correlation_id {
            bail!("answer to {} where {correlation_id} was due", header.correlation_id);
        }
        let response = R::Response::decode(&mut frame, version)?;
        if frame.has_remaining() {
            bail!("{} bytes are left after the answer", frame.remaining());
        }
        Ok(response)
    }

    /// The next frame without its length.
    ///
    /// # Errors
    /// The connection ends or stays silent.
    pub fn read_frame(&mut self) -> Result<Bytes> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).context("no answer")?;
        let size = usize::try_from(i32::from_be_bytes(size)).context("size of a frame")?;
        if size > 256 << 20 {
            bail!("a frame of {size} bytes");
        }
        let mut frame = vec![0; size];
        self.stream.read_exact(&mut frame).context("an answer that ends early")?;
        Ok(frame.into())
    }

    /// Whether the broker closes the connection within `limit` without a byte; bytes that come are an error.
    ///
    /// # Errors
    /// The broker answers.
    pub fn is_closed_within(&mut self, limit: Duration) -> Result<bool> {
        self.stream.set_read_timeout(Some(limit))?;
        let mut byte = [0; 1];
        let read = self.stream.read(&mut byte);
        self.stream.set_read_timeout(Some(PATIENCE))?;
        match read {
            Ok(0) => Ok(true),
            Ok(_) => bail!("the broker answers"),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the sending side: the broker sees the end of the stream.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn finish(&mut self) -> Result<()> {
        Ok(self.stream.shutdown(std::net::Shutdown::Write)?)
    }

    /// Whether the broker answers ApiVersions and names at least one broker in Metadata: it serves.
    pub fn metadata_has_brokers(&mut self) -> bool {
        let versions = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str("kelda-test"))
            .with_client_software_version(StrBytes::from_static_str("1"));
        self.try_call(3, &versions).is_ok_and(|answer| answer.error_code == 0)
            && self
                .try_call(9, &MetadataRequest::default().with_topics(Some(Vec::new())))
                .is_ok_and(|answer| !answer.brokers.is_empty() && answer.controller_id.0 >= 0)
    }
}

/// A whole request frame: length, header, body.
///
/// # Errors
/// A key that the protocol crate does not know.
pub fn frame(
    key: i16,
    version: i16,
    header_version: i16,
    correlation_id: i32,
    body: &[u8],
) -> Result<Bytes> {
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    RequestHeader::default()
        .with_request_api_key(key)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_static_str("kelda-test")))
        .encode(&mut frame, header_version)?;
    frame.extend_from_slice(body);
    let size = i32::try_from(frame.len() - 4).context("size of a frame")?;
    frame[..4].copy_from_slice(&size.to_be_bytes());
    Ok(frame.freeze())
}
