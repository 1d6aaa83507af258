//! Rules of the tree that no compiler checks: who may depend on whom, sizes of files, names that must not be there, APIs with tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use integration::harness::repository;
use protocol_compat::api_table::TABLE;

/// Files that are tracked, or would be if added now.
fn tracked(endings: &[&str]) -> Vec<PathBuf> {
    let root = repository();
    let listed = Command::new("git")
        .current_dir(&root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .output()
        .expect("git runs");
    assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    String::from_utf8_lossy(&listed.stdout)
        .lines()
        .map(|line| root.join(line))
        .filter(|path| path.is_file())
        .filter(|path| {
            endings.is_empty()
                || path.extension().is_some_and(|e| endings.iter().any(|end| e == *end))
        })
        .collect()
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).expect("a file")).into_owned()
}

#[test]
fn crates_depend_downwards_only() {
    let layers = ["protocol-compat", "storage", "controller", "broker", "integration"];
    for (place, name) in layers.iter().enumerate() {
        let manifest = read(&repository().join(name).join("Cargo.toml"));
        let named: BTreeSet<&str> = manifest
            .lines()
            .filter_map(|line| line.split(['.', ' ', '=']).next())
            .filter(|word| layers.contains(word))
            .collect();
        let above: Vec<_> =
            layers[place..].iter().filter(|layer| named.contains(**layer)).collect();
        assert!(above.is_empty(), "{name} depends on {above:?}");
    }
}

#[test]
fn source_files_are_small() {
    let long: Vec<String> = tracked(&["rs"])
        .into_iter()
        .filter(|path| !path.components().any(|part| part.as_os_str() == "generated"))
        .filter_map(|path| {
            let lines = read(&path).lines().count();
            (lines > 800).then(|| format!("{}: {lines} lines", path.display()))
        })
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn source_files_begin_with_what_they_are() {
    let silent: Vec<PathBuf> = tracked(&["rs"])
        .into_iter()
        .filter(|path| !path.ends_with("tests.rs") && !read(path).starts_with("//!"))
        .collect();
    assert!(silent.is_empty(), "no module comment: {silent:#?}");
}

#[test]
fn nothing_names_a_machine() {
    // In two pieces, so that this file does not name them either.
    let forbidden: Vec<String> = [("/wo", "rk/"), ("/root", "/"), ("/home", "/")]
        .iter()
        .map(|(a, b)| format!("{a}{b}"))
        .collect();
    let mut found = Vec::new();
    for path in tracked(&[
        "rs",
        "toml",
        "sh",
        "py",
        "go",
        "java",
        "yml",
        "yaml",
        "md",
        "properties",
        "tsv",
        "txt",
    ]) {
        for (number, line) in (1..).zip(read(&path).lines()) {
            if forbidden.iter().any(|word| line.contains(word.as_str())) {
                found.push(format!("{}:{number}: {}", path.display(), line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn no_test_is_ignored_or_sleeps() {
    let words = [format!("#[ign{}", "ore"), format!("thread::sl{}(", "eep")];
    let found: Vec<String> = tracked(&["rs"])
        .into_iter()
        .filter(|path| path.components().any(|part| part.as_os_str() == "tests"))
        .filter(|path| words.iter().any(|word| read(path).contains(word.as_str())))
        .map(|path| path.display().to_string())
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn every_api_served_is_spoken_to_in_a_test() {
    let spoken: String = tracked(&["rs"])
        .into_iter()
        .filter(|path| path.starts_with(repository().join("integration")))
        .map(|path| read(&path))
        .collect();
    let silent: Vec<&str> = TABLE
        .iter()
        .map(|row| row.name)
        .filter(|name| !spoken.contains(&format!("{name}Request")))
        .collect();
    assert!(silent.is_empty(), "no test speaks to {silent:?}");
}

#[test]
fn apis_are_served_up_to_the_newest_version_of_kafka() {
    // Key: oldest and newest version that a broker listener of Apache Kafka 4.4.0 advertises.
    let kafka: BTreeMap<i16, (i16, i16)> = include_str!("data/kafka-4.4-apis.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut fields = line.split('\t').map(|field| field.parse().expect("a number"));
            let mut next = || fields.next().expect("three fields");
            (next(), (next(), next()))
        })
        .collect();
    let wrong: Vec<String> = TABLE
        .iter()
        .filter(|row| {
            let (min, max) = kafka[&row.key];
            row.max != max || row.advertised_min < min
        })
        .map(|row| {
            format!(
                "{} {} to {}, Kafka {:?}",
                row.name, row.advertised_min, row.max, kafka[&row.key]
            )
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
