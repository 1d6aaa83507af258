//! Child processes that do not outlive the tests, and children that run to their end with a time limit.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use super::wait_for;

type Job = (Command, Sender<std::io::Result<Child>>);

/// Spawns `command` so that the kernel kills it when this program ends, however it ends.
///
/// The kernel's signal comes when the *thread* that spawned the child ends, and test threads end early: so one thread
/// that lives as long as the program spawns all of them.
///
/// # Errors
/// The command cannot be started.
pub fn spawn_bound(command: &Command) -> std::io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (jobs, queue) = channel::<Job>();
        std::thread::spawn(move || {
            for (mut command, answer) in queue {
                // A caller that is gone has no use for its child.
                if let Err(unsent) = answer.send(command.spawn())
                    && let Ok(mut child) = unsent.0
                {
                    child.kill().ok();
                }
            }
        });
        Mutex::new(jobs)
    });
    let mut bound = Command::new("setpriv");
    bound.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(name, value),
            None => bound.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        bound.current_dir(folder);
    }
    let log =
        command.get_envs().find(|(name, _)| *name == "KELDA_TEST_LOG").and_then(|(_, file)| file);
    bound.stdin(Stdio::null());
    if let Some(file) = log {
        let file = std::fs::File::options().create(true).append(true).open(file)?;
        bound.stdout(file.try_clone()?).stderr(file);
    } else {
        bound.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let (answer, child) = channel();
    spawner
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .send((bound, answer))
        .map_err(|_| std::io::Error::other("the spawning thread is gone"))?;
    child.recv().map_err(|_| std::io::Error::other("the spawning thread is gone"))?
}

/// Runs `command` to its end and gives what it printed; stdout alone when it succeeded.
///
/// # Errors
/// It cannot be started, fails, or takes longer than `limit` (it is killed then): the text has all output.
pub fn run(command: &Command, limit: Duration) -> anyhow::Result<String> {
    let mut child = spawn_bound(command)?;
    let reader = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut stream) = stream {
                stream.read_to_end(&mut text).ok();
            }
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let stdout = reader(child.stdout.take().map(|s| Box::new(s) as _));
    let stderr = reader(child.stderr.take().map(|s| Box::new(s) as _));
    let status = wait_for(limit, || child.try_wait().ok().flatten());
    if status.is_none() {
        child.kill().ok();
        child.wait().ok();
    }
    let stdout = stdout.join().unwrap_or_default();
    let stderr = stderr.join().unwrap_or_default();
    match status {
        Some(status) if status.success() => Ok(stdout),
        Some(status) => anyhow::bail!("{command:?} ended with {status}\n{stdout}\n{stderr}"),
        None => anyhow::bail!("{command:?} took over {limit:?} and was killed\n{stdout}\n{stderr}"),
    }
}
