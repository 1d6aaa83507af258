//! Where things are: the tree, and the binary under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The root of the tree.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the integration crate is in a folder of the tree")
        .to_path_buf()
}

/// The `kelda` binary: what `KELDA_BIN` names, else this tree's, built now if it is stale.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn build_kelda() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY
        .get_or_init(|| {
            if let Some(path) = std::env::var_os("KELDA_BIN") {
                return PathBuf::from(path);
            }
            // This program is target/PROFILE/deps/NAME-HASH or target/PROFILE/NAME.
            let own = std::env::current_exe().expect("a program knows its path");
            let mut folder = own.parent().expect("a program is in a folder").to_path_buf();
            if folder.ends_with("deps") {
                folder.pop();
            }
            let mut build = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
            build
                .current_dir(repository())
                .args(["build", "--quiet", "-p", "broker", "--bin", "kelda"]);
            if folder.ends_with("release") {
                build.arg("--release");
            }
            let status = build.status().expect("cargo runs");
            assert!(status.success(), "the kelda binary does not build");
            folder.join("kelda")
        })
        .clone()
}
