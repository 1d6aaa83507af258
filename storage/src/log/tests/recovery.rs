//! What a restart finds after clean and other stops.

use std::sync::Arc;

use bytes::Bytes;
use protocol_compat::ids::Offset;

use super::testkit::{Spec, T};
use crate::disk::{File, OpenMode};
use crate::log::LogConfig;

fn small_segments() -> LogConfig {
    LogConfig { segment_bytes: 1000, index_interval_bytes: 200, ..LogConfig::default() }
}

fn filled(records: u8) -> T {
    let mut t = T::new(small_segments());
    for number in 0..records {
        let producer = Some((5, 0, i32::from(number)));
        t.append(Spec { fill: number, producer, ..Spec::default() });
    }
    t
}

fn active_file(t: &T) -> (Arc<dyn File>, u64) {
    let name = t.files().into_iter().rfind(|name| name.ends_with(".log")).expect("a segment");
    let file = t.fs.open(&t.dir.join(name), OpenMode::ReadWrite).expect("opens");
    let size = file.size().expect("a size");
    (file, size)
}

#[test]
fn a_clean_stop_scans_nothing_and_leaves_whole_files() {
    let mut t = filled(60).reopen(true);
    assert!(!t.report.scanned);
    assert_eq!((t.log.written(), t.log.recovery_point()), (Offset(60), Offset(60)));
    assert_eq!(t.log.unscanned_bytes(), 0);
    assert!(t.files().contains(&"00000000000000000060.snapshot".to_owned()));
    assert_eq!(t.read_all(0, 60, 500).len(), 60);
    assert!(t.log.is_idle());
}

#[test]
fn a_kill_scans_from_the_recovery_point_only() {
    let mut t = filled(60);
    t.log.request_checkpoint();
    t.run();
    assert_eq!((t.log.recovery_point(), t.log.unscanned_bytes()), (Offset(60), 0));
    let one = t.log.size_bytes() / 60;
    for number in 60..63 {
        t.append(Spec { producer: Some((5, 0, number)), ..Spec::default() });
    }
    assert_eq!(t.log.unscanned_bytes(), 3 * one);
    let mut t = t.reopen(false);
    assert!(t.report.scanned);
    assert_eq!((t.report.scanned_bytes, t.report.cut_bytes), (3 * one, 0));
    assert_eq!((t.log.written(), t.log.flushed()), (Offset(63), Offset(60)));
    assert_eq!(t.log.unscanned_bytes(), 3 * one);
    assert_eq!(t.read_all(0, 63, 500).len(), 63);
    t.run();
    assert_eq!(t.log.flushed(), Offset(63), "the log asks for the sync of what it found");
}

#[test]
fn torn_zero_and_foreign_tails_are_cut_at_any_byte() {
    let (_, whole) = active_file(&filled(30));
    for cut in 1..100 {
        let t = filled(30);
        let (file, size) = active_file(&t);
        assert_eq!(size, whole);
        file.set_len(size - cut).expect("cut");
        let mut t = t.reopen(false);
        let end = t.log.written().0;
        assert!(end == 29 || end == 28, "cut of {cut}");
        assert_eq!(t.read_all(0, end, 1 << 20).len() as i64, end);
        let next = i32::try_from(end).expect("small");
        t.append(Spec { producer: Some((5, 0, next)), ..Spec::default() });
        let mut t = t.reopen(false);
        assert_eq!(t.report.cut_bytes, 0, "the second recovery finds all right");
        assert_eq!(t.read_all(0, end + 1, 1 << 20).len() as i64, end + 1);
    }
    for tail in [vec![0; 5000], vec![0; 1], vec![0xff; 300]] {
        let t = filled(30);
        let (file, size) = active_file(&t);
        file.write_all_at(&[Bytes::from(tail.clone())], size).expect("writes");
        let mut t = t.reopen(false);
        assert_eq!(t.report.cut_bytes, tail.len() as u64);
        assert_eq!(active_file(&t).1, size);
        assert_eq!(t.read_all(0, 30, 1 << 20).len(), 30);
    }
}

#[test]
fn index_files_that_are_missing_cut_or_garbage_are_rebuilt() {
    let reference = filled(60).reopen(true);
    let names: Vec<String> = reference
        .files()
        .into_iter()
        .filter(|name| name.ends_with("index") || name.ends_with(".snapshot"))
        .collect();
    assert!(names.len() > 10);
    for clean in [true, false] {
        for name in &names {
            for damage in 0..3 {
                let t = filled(60).reopen(true);
                let path = t.dir.join(name);
                let file = t.fs.open(&path, OpenMode::ReadWrite).expect("opens");
                let size = file.size().expect("a size");
                match damage {
                    0 => t.fs.remove_file(&path).expect("removed"),
                    1 => file.set_len(size.saturating_sub(1)).expect("cut"),
                    _ => file.set_len(size + 800).expect("zeros"),
                }
                let fs = t.fs.clone();
                let (dir, config) = (t.dir.clone(), t.config.clone());
                let args = crate::log::OpenArgs {
                    recovery_point: t.log.recovery_point(),
                    clean_shutdown: clean,
                    ..super::testkit::args()
                };
                drop(t);
                let mut t = T::open(fs, &dir, config, args);
                assert_eq!(t.read_all(0, 60, 300).len(), 60, "{name} {damage}");
                t.append(Spec { producer: Some((5, 0, 60)), ..Spec::default() });
                let t = t.reopen(true);
                let now: Vec<String> = t.files();
                for name in names.iter().filter(|name| name.ends_with("index")) {
                    assert!(now.contains(name), "{name}");
                }
            }
        }
    }
}

#[test]
fn a_flipped_bit_after_the_recovery_point_cuts_there_and_before_it_is_left_to_readers() {
    let t = filled(30);
    let point = t.log.recovery_point().0;
    let (file, size) = active_file(&t);
    let mut byte = [0];
    file.read_at(&mut byte, size - 100).expect("reads");
    file.write_all_at(&[Bytes::copy_from_slice(&[byte[0] ^ 4])], size - 100).expect("writes");
    let mut t = t.reopen(false);
    let end = t.log.written().0;
    assert!(end >= point && end < 30);
    assert!(t.report.cut_bytes > 0);
    assert_eq!(t.read_all(0, end, 1 << 20).len() as i64, end);
}

#[test]
fn segments_after_damage_are_dropped() {
    let mut t = T::new(small_segments());
    for _ in 0..30 {
        t.append(Spec::default());
    }
    let first = t.dir.join("00000000000000000000.log");
    let file = t.fs.open(&first, OpenMode::ReadWrite).expect("opens");
    file.set_len(file.size().expect("a size") - 1).expect("cut");
    let args = super::testkit::args();
    let (fs, dir, config) = (t.fs.clone(), t.dir.clone(), t.config.clone());
    drop(t);
    let mut t = T::open(fs, &dir, config, args);
    assert_eq!(t.report.segments, 1);
    let end = t.log.written().0;
    assert_eq!(t.read_all(0, end, 1 << 20).len() as i64, end);
    assert_eq!(t.append(Spec::default()).base_offset, Offset(end));
}

#[test]
fn a_directory_that_kafka_left_in_a_crash_opens() {
    // Kafka preallocates the index files of the active segment.
    let t = filled(60);
    for name in t.files() {
        if name.ends_with("index") && name.as_str() > "00000000000000000050" {
            let file = t.fs.open(&t.dir.join(&name), OpenMode::ReadWrite).expect("opens");
            file.set_len(if name.ends_with("timeindex") { 9996 } else { 10_000 }).expect("grown");
        }
    }
    t.fs.open(&t.dir.join("00000000000000000007.index"), OpenMode::Create).expect("an orphan");
    let mut t = t.reopen(false);
    assert_eq!(t.read_all(0, 60, 300).len(), 60);
    assert!(!t.files().contains(&"00000000000000000007.index".to_owned()));
}
