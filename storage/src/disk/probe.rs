//! Which engine a core gets, and why.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;

use super::Engine;
use super::plain::PlainEngine;
use super::uring::{AppendPath, RingEngine};

/// `kelda.disk.engine`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum EngineSetting {
    /// io_uring where the kernel grants it, else plain.
    #[default]
    Auto,
    /// io_uring or no start.
    Uring,
    /// Ordinary system calls and helper threads.
    Plain,
}

impl FromStr for EngineSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "uring" => Ok(Self::Uring),
            "plain" => Ok(Self::Plain),
            _ => Err(format!("{text:?} is not one of auto, uring, plain")),
        }
    }
}

/// Why io_uring cannot be used.
#[derive(Debug)]
pub enum Refusal {
    /// The kernel has none (`ENOSYS` without a filter).
    Missing,
    /// It lacks an operation that is needed (before Linux 5.6).
    TooOld,
    /// `kernel.io_uring_disabled` is 1 (and this process has no right to it) or 2.
    Sysctl(u8),
    /// A seccomp filter, such as the default one of Docker since 25.0.
    Seccomp,
    /// The locked-memory limit (`ulimit -l`) of an old kernel, or no memory.
    Memory,
    /// No descriptor is left (`ulimit -n`).
    Descriptors,
    /// Anything else.
    Other(io::Error),
}

impl Refusal {
    fn of(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::Unsupported && error.raw_os_error().is_none() {
            return Self::TooOld;
        }
        let filtered = || {
            let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
            status.lines().any(|line| {
                line.strip_prefix("Seccomp:").is_some_and(|mode| matches!(mode.trim(), "1" | "2"))
            })
        };
        match error.raw_os_error() {
            Some(libc::ENOSYS) if filtered() => Self::Seccomp,
            Some(libc::ENOSYS) => Self::Missing,
            Some(libc::EPERM | libc::EACCES) => {
                let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
                match disabled.as_deref().map(str::trim) {
                    Ok("1") => Self::Sysctl(1),
                    Ok("2") => Self::Sysctl(2),
                    _ if filtered() => Self::Seccomp,
                    _ => Self::Other(error),
                }
            }
            Some(libc::EINVAL) => Self::TooOld,
            Some(libc::ENOMEM) => Self::Memory,
            Some(libc::EMFILE | libc::ENFILE) => Self::Descriptors,
            _ => Self::Other(error),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("this kernel has no io_uring"),
            Self::TooOld => f.write_str("this kernel's io_uring lacks needed operations"),
            Self::Sysctl(value) => write!(f, "kernel.io_uring_disabled is {value}"),
            Self::Seccomp => {
                f.write_str("a seccomp filter refuses io_uring (as Docker's default does)")
            }
            Self::Memory => f.write_str("no memory may be locked for io_uring (ulimit -l)"),
            Self::Descriptors => f.write_str("no file descriptor is left for io_uring (ulimit -n)"),
            Self::Other(error) => write!(f, "io_uring is refused: {error}"),
        }
    }
}

/// What [`open_engine`] chose, for the start-up log and a metric. Its [`Display`](fmt::Display) is one line.
#[derive(Debug)]
pub struct EngineReport {
    /// [`Engine::name`].
    pub engine: &'static str,
    /// Where writes run.
    pub append: AppendPath,
    /// Why it is not the ring, when the ring was asked for or would have been taken.
    pub refusal: Option<Refusal>,
    /// Kind of the file system that holds the directory.
    pub file_system: &'static str,
}

impl fmt::Display for EngineReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.engine, &self.refusal) {
            ("uring", _) => f.write_str("io_uring engine: syncs and cold reads on the ring")?,
            (_, None) => {
                f.write_str("plain engine (by setting): syncs and cold reads on threads")?
            }
            (_, Some(refusal)) => {
                write!(f, "plain engine, since {refusal}: syncs and cold reads on threads")?;
            }
        }
        match self.append {
            AppendPath::InPlace => f.write_str(", writes in place")?,
            AppendPath::Ring => f.write_str(", writes on the ring")?,
        }
        write!(f, " ({})", self.file_system)
    }
}

/// Makes the engine of one core. Takes well under a millisecond: nothing is measured at start, since a measurement that
/// short would tell noise; `docs/decisions/0001` has the figures behind the choices.
///
/// # Errors
/// The setting is `uring` and the kernel refuses it, or the process is out of descriptors.
pub fn open_engine(
    setting: EngineSetting,
    dir: &Path,
) -> io::Result<(Box<dyn Engine>, EngineReport)> {
    let file_system = file_system(dir);
    let append = AppendPath::InPlace;
    let refusal = match setting {
        EngineSetting::Plain => None,
        EngineSetting::Auto | EngineSetting::Uring => match RingEngine::new(append) {
            Ok(engine) => {
                let engine: Box<dyn Engine> = Box::new(engine);
                let name = engine.name();
                return Ok((
                    engine,
                    EngineReport { engine: name, append, refusal: None, file_system },
                ));
            }
            Err(error) => Some(Refusal::of(error)),
        },
    };
    if let (EngineSetting::Uring, Some(refusal)) = (setting, &refusal) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, refusal.to_string()));
    }
    let engine: Box<dyn Engine> = Box::new(PlainEngine::new()?);
    let name = engine.name();
    Ok((engine, EngineReport { engine: name, append, refusal, file_system }))
}

/// Kind of the file system at `dir`, or of its nearest parent that exists.
fn file_system(dir: &Path) -> &'static str {
    let kind = dir.ancestors().find_map(|dir| rustix::fs::statfs(dir).ok());
    match kind.map(|stat| stat.f_type) {
        Some(0xef53) => "ext4",
        Some(0x5846_5342) => "xfs",
        Some(0x9123_683e) => "btrfs",
        Some(0x0102_1994) => "tmpfs",
        Some(0x794c_7630) => "overlayfs",
        Some(0x2fc1_2fc1) => "zfs",
        Some(0x6969) => "nfs",
        Some(0x6573_5546) => "fuse",
        Some(_) => "another file system",
        None => "unknown file system",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_by_name() {
        assert_eq!("auto".parse(), Ok(EngineSetting::Auto));
        assert_eq!("uring".parse(), Ok(EngineSetting::Uring));
        assert_eq!("plain".parse(), Ok(EngineSetting::Plain));
        assert!("Ring".parse::<EngineSetting>().is_err());
    }

    #[test]
    fn the_plain_engine_is_given_when_asked_for() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (engine, report) =
            open_engine(EngineSetting::Plain, &dir.path().join("absent")).expect("engine");
        assert_eq!((engine.name(), report.engine), ("plain", "plain"));
        assert!(report.to_string().starts_with("plain engine (by setting)"), "{report}");
    }

    #[test]
    fn auto_gives_an_engine_and_says_why() {
        let (engine, report) = open_engine(EngineSetting::Auto, Path::new("/")).expect("engine");
        assert_eq!(engine.name(), report.engine);
        assert_eq!(report.engine == "plain", report.refusal.is_some(), "{report}");
    }

    #[test]
    fn refusals_name_their_cause() {
        let of = |errno| Refusal::of(io::Error::from_raw_os_error(errno));
        assert!(matches!(of(libc::EINVAL), Refusal::TooOld));
        assert!(matches!(of(libc::ENOMEM), Refusal::Memory));
        assert!(matches!(of(libc::EMFILE), Refusal::Descriptors));
        assert!(matches!(of(libc::ENOSYS), Refusal::Missing | Refusal::Seccomp));
        assert!(matches!(Refusal::of(io::ErrorKind::Unsupported.into()), Refusal::TooOld));
    }
}
