//! The `kelda` binary: the broker, its command line and its load generator.

mod memory;

/// musl's own allocator costs a multiple, and the system's keeps more of what it once had.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    broker::cli::main()
}
