//! One broker process with its folder, port and log.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{build_kelda, free_port_pair, repository, run, spawn_bound, wait_for};
use crate::wire::Client;

/// Which broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The `kelda` binary of this tree.
    Kelda,
    /// Apache Kafka 4.4.0.
    Kafka,
}

impl Kind {
    /// What `KELDA_TEST_BROKER` says: `kelda` (default) or `kafka`.
    ///
    /// # Panics
    /// On another word.
    #[must_use]
    pub fn selected() -> Self {
        match std::env::var("KELDA_TEST_BROKER").as_deref() {
            Err(_) | Ok("" | "kelda") => Self::Kelda,
            Ok("kafka") => Self::Kafka,
            Ok(other) => panic!("KELDA_TEST_BROKER is kelda or kafka, not {other}"),
        }
    }
}

/// Settings that every broker of the tests has: small internal topics, no wait for a group's first members.
const SETTINGS: [(&str, &str); 5] = [
    ("group.initial.rebalance.delay.ms", "0"),
    ("offsets.topic.num.partitions", "4"),
    ("transaction.state.log.num.partitions", "4"),
    ("auto.create.topics.enable", "true"),
    ("log.retention.check.interval.ms", "1000"),
];

/// How long a broker may take to start or to stop: a JVM on a busy machine takes long.
const LIMIT: Duration = Duration::from_secs(120);

/// A broker: a process, or the folder that one has left. Killed when dropped.
#[derive(Debug)]
pub struct Broker {
    kind: Kind,
    folder: PathBuf,
    port: u16,
    child: Option<Child>,
    _temporary: Option<TempDir>,
}

impl Broker {
    /// Starts the selected broker in a new folder with these settings beside the common ones.
    ///
    /// # Panics
    /// When it does not serve; its log is in the message.
    #[must_use]
    pub fn start(settings: &[(&str, &str)]) -> Self {
        Self::start_kind(Kind::selected(), settings)
    }

    /// As [`Self::start`], of a given kind.
    ///
    /// # Panics
    /// When it does not serve.
    #[must_use]
    pub fn start_kind(kind: Kind, settings: &[(&str, &str)]) -> Self {
        let temporary = TempDir::with_prefix("kelda-test-").expect("a temporary folder");
        let folder = temporary.path().to_path_buf();
        let mut broker =
            Self { kind, folder, port: free_port_pair(), child: None, _temporary: Some(temporary) };
        broker.configure(settings);
        broker.start_again();
        broker
    }

    /// The broker that all tests of this program share; topics and groups must have names of their own.
    /// `KELDA_TEST_ADDRESS` names one that runs already.
    ///
    /// # Panics
    /// When it does not serve.
    #[must_use]
    pub fn shared() -> &'static str {
        static GIVEN: OnceLock<Option<String>> = OnceLock::new();
        static SHARED: OnceLock<(Mutex<Broker>, String)> = OnceLock::new();
        if let Some(address) = GIVEN.get_or_init(|| std::env::var("KELDA_TEST_ADDRESS").ok()) {
            return address;
        }
        let (broker, address) = SHARED.get_or_init(|| {
            let broker = Self::start(&[]);
            let address = broker.address();
            (Mutex::new(broker), address)
        });
        let mut broker = broker.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(broker.is_running(), "the shared broker has ended:\n{}", broker.log_tail());
        address
    }

    /// HOST:PORT for clients.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Which broker it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The log directory.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The process id, while there is a process.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Whether the process lives.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// A raw connection.
    ///
    /// # Panics
    /// When it is refused.
    #[must_use]
    pub fn connect(&self) -> Client {
        Client::connect(&self.address()).expect("the broker accepts connections")
    }

    /// Goes on with the same folder and port as another kind of broker: the data directory changes hands.
    ///
    /// # Panics
    /// While the process runs.
    pub fn become_kind(&mut self, kind: Kind) {
        assert!(self.child.is_none(), "stop it first");
        self.kind = kind;
    }

    /// Starts the process on the folder as it is and waits until it serves.
    ///
    /// # Panics
    /// When it does not serve.
    pub fn start_again(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let file = self.folder.join("server.properties");
        let mut command = match self.kind {
            Kind::Kelda => {
                let mut command = Command::new(build_kelda());
                command.arg("serve").arg(&file);
                command
            }
            Kind::Kafka => {
                let mut command = kafka_script();
                command.arg("run").arg(&self.folder);
                command
            }
        };
        command.current_dir(&self.folder).env("KELDA_TEST_LOG", self.folder.join("broker.log"));
        self.child = Some(spawn_bound(&command).expect("the broker starts"));
        let address = self.address();
        let served = wait_for(LIMIT, || {
            if !self.is_running() {
                return Some(false);
            }
            Client::connect(&address).ok()?.metadata_has_brokers().then_some(true)
        });
        assert!(served == Some(true), "{:?} does not serve:\n{}", self.kind, self.log_tail());
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Panics
    /// When it does not end, or not with success (143 is success for a JVM).
    pub fn stop(&mut self) {
        let status = self.end(Signal::TERM);
        let clean = status.success() || (self.kind == Kind::Kafka && status.code() == Some(143));
        assert!(clean, "{:?} ended with {status} on SIGTERM:\n{}", self.kind, self.log_tail());
    }

    /// SIGKILL, and asserts that it was that which ended the process.
    ///
    /// # Panics
    /// When it had ended otherwise before.
    pub fn kill(&mut self) {
        let status = self.end(Signal::KILL);
        assert_eq!(status.signal(), Some(libc::SIGKILL), "{:?}:\n{}", self.kind, self.log_tail());
    }

    fn end(&mut self, signal: Signal) -> ExitStatus {
        let mut child = self.child.take().expect("it runs");
        let pid = Pid::from_child(&child);
        kill_process(pid, signal).ok();
        wait_for(LIMIT, || child.try_wait().ok().flatten()).unwrap_or_else(|| {
            child.kill().ok();
            panic!("{:?} did not end in {LIMIT:?}:\n{}", self.kind, self.log_tail())
        })
    }

    /// The last lines of the broker's log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let text = fs::read(self.folder.join("broker.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }

    fn configure(&self, settings: &[(&str, &str)]) {
        let all = SETTINGS.iter().filter(|(name, _)| !settings.iter().any(|(own, _)| own == name));
        let extra: Vec<String> =
            all.chain(settings).map(|(name, value)| format!("{name}={value}")).collect();
        match self.kind {
            Kind::Kafka => {
                let mut command = kafka_script();
                command.arg("configure").arg(&self.folder).arg(self.port.to_string()).args(&extra);
                run(&command, LIMIT).expect("the folder is formatted");
            }
            Kind::Kelda => {
                let cores = format!("kelda.cores={}", cores());
                write_properties(&self.folder, self.port, &[&[cores], &*extra].concat());
            }
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
        if std::thread::panicking() {
            eprintln!("--- end of the log of {:?}\n{}\n---", self.kind, self.log_tail());
        }
    }
}

/// Reactors of brokers that this test program starts: three where its name says so, else one.
fn cores() -> u16 {
    let program = std::env::current_exe().unwrap_or_default();
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    if name.contains("_3_cores") { 3 } else { 1 }
}

/// `kafka.sh` with a heap that a small machine can give.
#[must_use]
pub fn kafka_script() -> Command {
    let mut command = Command::new(repository().join("integration/kafka/kafka.sh"));
    if std::env::var_os("KAFKA_HEAP_OPTS").is_none() {
        command.env("KAFKA_HEAP_OPTS", "-Xmx512m -Xms256m");
    }
    command
}

/// What `kafka.sh configure` writes, for a broker that needs no formatting.
fn write_properties(folder: &Path, port: u16, extra: &[String]) {
    let controller = port + 1;
    let data = folder.join("data");
    let lines = [
        "process.roles=broker,controller".to_owned(),
        "node.id=1".to_owned(),
        format!("controller.quorum.voters=1@127.0.0.1:{controller}"),
        format!("listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"),
        format!("advertised.listeners=PLAINTEXT://127.0.0.1:{port}"),
        "controller.listener.names=CONTROLLER".to_owned(),
        "inter.broker.listener.name=PLAINTEXT".to_owned(),
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned(),
        format!("log.dirs={}", data.display()),
        "offsets.topic.replication.factor=1".to_owned(),
        "transaction.state.log.replication.factor=1".to_owned(),
        "transaction.state.log.min.isr=1".to_owned(),
    ];
    let text = lines.iter().chain(extra).fold(String::new(), |text, line| text + line + "\n");
    fs::create_dir_all(&data).expect("the log directory");
    fs::write(folder.join("server.properties"), text).expect("server.properties");
}
