use std::path::Path;

use bytes::Bytes;

use super::{Call, Fault, Latency, PowerLoss, SimDisk};
use crate::disk::{Done, Engine, FileRef, FileSystem, Op, OpenMode, Ticket};

fn disk_with_file(seed: u64) -> (SimDisk, FileRef) {
    let disk = SimDisk::new(seed);
    disk.create_dir_all(Path::new("/d")).expect("mkdir");
    disk.sync_dir(Path::new("/")).expect("sync");
    let file = disk.open(Path::new("/d/f"), OpenMode::Create).expect("open");
    disk.sync_dir(Path::new("/d")).expect("sync");
    (disk, file)
}

fn content(disk: &SimDisk, path: &str) -> Option<Vec<u8>> {
    let file = disk.open(Path::new(path), OpenMode::Read).ok()?;
    let mut data = vec![0; usize::try_from(file.size().expect("size")).expect("small")];
    file.read_at(&mut data, 0).expect("read");
    Some(data)
}

fn write(file: &FileRef, pos: u64, data: &[u8]) {
    file.write_all_at(&[Bytes::copy_from_slice(data)], pos).expect("write");
}

#[test]
fn synced_data_survives_every_power_loss() {
    for seed in 0..300 {
        let (disk, file) = disk_with_file(seed);
        write(&file, 0, &[1; 3000]);
        file.sync_data().expect("sync");
        write(&file, 3000, &[2; 3000]);
        for style in [
            PowerLoss::DropUnsynced,
            PowerLoss::KeepUnsynced,
            PowerLoss::TearLastWrite,
            PowerLoss::Random,
        ] {
            let data = content(&disk.power_loss(style), "/d/f").expect("there");
            assert_eq!(data[..2560], [1; 2560], "whole synced sectors, seed {seed}, {style:?}");
            assert!(data.len() >= 3000, "seed {seed}, {style:?}");
            assert!(data[2560..3000].iter().all(|&byte| byte == 1), "seed {seed}, {style:?}");
            assert!(data[3000..].iter().all(|&byte| byte == 2 || byte == 0));
            match style {
                PowerLoss::DropUnsynced => assert_eq!(data.len(), 3000),
                PowerLoss::KeepUnsynced => assert_eq!(data[3000..], [2; 3000]),
                PowerLoss::TearLastWrite | PowerLoss::Random => {}
            }
        }
    }
}

#[test]
fn random_power_losses_differ_and_tear() {
    let (mut shorter, mut whole, mut holes) = (0, 0, 0);
    for seed in 0..300 {
        let (disk, file) = disk_with_file(seed);
        write(&file, 0, &[7; 4096]);
        let data = content(&disk.power_loss(PowerLoss::Random), "/d/f").expect("there");
        shorter += usize::from(data.len() < 4096);
        whole += usize::from(data == [7; 4096]);
        holes +=
            usize::from(data.iter().rev().skip_while(|&&byte| byte == 0).any(|&byte| byte == 0));
    }
    assert!(shorter > 50 && holes > 50, "{shorter} {holes}");
    assert!(whole < 50, "{whole}");
}

#[test]
fn same_seed_gives_the_same_survivor() {
    let run = || {
        let (disk, file) = disk_with_file(11);
        write(&file, 0, &[3; 9000]);
        content(&disk.power_loss(PowerLoss::Random), "/d/f")
    };
    assert_eq!(run(), run());
}

#[test]
fn data_written_while_a_sync_runs_is_not_promised() {
    let (disk, file) = disk_with_file(1);
    disk.set_latency(Latency { sync: 2..=2, ..Latency::default() });
    let mut engine = disk.engine();
    write(&file, 0, b"first");
    engine.submit(Ticket(1), Op::SyncData { file: file.clone() });
    engine.flush();
    write(&file, 5, b"second");
    let mut out = Vec::new();
    engine.reap(&mut out);
    assert!(out.is_empty());
    engine.reap(&mut out);
    assert!(matches!(out[0].result, Ok(Done::Synced)));
    assert_eq!(engine.in_flight(), 0);
    assert_eq!(
        content(&disk.power_loss(PowerLoss::DropUnsynced), "/d/f").expect("there"),
        b"first"
    );
}

#[test]
fn a_running_sync_promises_nothing_yet() {
    let (disk, file) = disk_with_file(1);
    disk.set_latency(Latency { sync: 5..=5, ..Latency::default() });
    let mut engine = disk.engine();
    write(&file, 0, b"first");
    engine.submit(Ticket(1), Op::SyncData { file });
    engine.flush();
    let after = disk.power_loss(PowerLoss::DropUnsynced);
    assert_eq!(content(&after, "/d/f").expect("there"), b"");
    let mut out = Vec::new();
    while engine.in_flight() > 0 {
        engine.reap(&mut out);
    }
    assert!(out[0].result.is_err(), "the power went first");
}

#[test]
fn names_survive_only_after_a_directory_sync() {
    let (disk, file) = disk_with_file(1);
    write(&file, 0, b"old");
    file.sync_data().expect("sync");
    let new = disk.open(Path::new("/d/f.tmp"), OpenMode::Truncate).expect("open");
    write(&new, 0, b"new");
    new.sync_data().expect("sync");
    disk.rename(Path::new("/d/f.tmp"), Path::new("/d/f")).expect("rename");
    assert_eq!(content(&disk, "/d/f").expect("there"), b"new");
    let before = disk.kill();
    assert_eq!(content(&before, "/d/f").expect("there"), b"new", "a kill keeps names");
    let lost = before.power_loss(PowerLoss::DropUnsynced);
    assert_eq!(content(&lost, "/d/f").expect("there"), b"old");
    assert_eq!(content(&lost, "/d/f.tmp"), None);
}

#[test]
fn a_replaced_file_is_old_or_new_and_never_absent() {
    let mut seen = [0; 2];
    for seed in 0..100 {
        let (disk, file) = disk_with_file(seed);
        write(&file, 0, b"old");
        file.sync_data().expect("sync");
        let new = disk.open(Path::new("/d/f.tmp"), OpenMode::Truncate).expect("open");
        write(&new, 0, b"new");
        new.sync_data().expect("sync");
        disk.rename(Path::new("/d/f.tmp"), Path::new("/d/f")).expect("rename");
        let after = disk.power_loss(PowerLoss::Random);
        let data = content(&after, "/d/f").expect("there");
        assert!(data == b"old" || data == b"new", "{data:?}");
        seen[usize::from(data == b"new")] += 1;
    }
    assert!(seen[0] > 10 && seen[1] > 10, "{seen:?}");
}

#[test]
fn a_rename_without_sync_of_the_data_may_lose_the_data() {
    let lost = (0..100)
        .filter(|&seed| {
            let (disk, _file) = disk_with_file(seed);
            let new = disk.open(Path::new("/d/g.tmp"), OpenMode::Truncate).expect("open");
            write(&new, 0, b"new");
            disk.rename(Path::new("/d/g.tmp"), Path::new("/d/g")).expect("rename");
            disk.sync_dir(Path::new("/d")).expect("sync");
            let after = disk.power_loss(PowerLoss::Random);
            content(&after, "/d/g").expect("named") != b"new"
        })
        .count();
    assert!(lost > 10, "{lost}");
}

#[test]
fn a_new_directory_is_lost_with_what_it_holds_until_its_parent_is_synced() {
    let disk = SimDisk::new(3);
    disk.create_dir_all(Path::new("/a/b")).expect("mkdir");
    disk.open(Path::new("/a/b/f"), OpenMode::Create).expect("open").sync_data().expect("sync");
    disk.sync_dir(Path::new("/a/b")).expect("sync");
    disk.sync_dir(Path::new("/a")).expect("sync");
    let lost = disk.kill().power_loss(PowerLoss::DropUnsynced);
    assert!(!lost.exists(Path::new("/a")).expect("exists"));
    let disk = disk.kill();
    assert!(disk.exists(Path::new("/a/b/f")).expect("exists"));
    disk.sync_dir(Path::new("/")).expect("sync");
    let kept = disk.power_loss(PowerLoss::DropUnsynced);
    assert!(kept.exists(Path::new("/a/b/f")).expect("exists"));
}

#[test]
fn a_removed_directory_may_come_back_in_part_until_synced() {
    for seed in 0..50 {
        let (disk, _file) = disk_with_file(seed);
        disk.rename(Path::new("/d"), Path::new("/d-delete")).expect("rename");
        disk.remove_dir_all(Path::new("/d-delete")).expect("remove");
        let after = disk.power_loss(PowerLoss::Random);
        let names = ["/d", "/d-delete"];
        let there = names.iter().filter(|path| after.exists(Path::new(path)).expect("exists"));
        assert!(there.count() <= 1, "never under both names");
    }
    let (disk, _file) = disk_with_file(0);
    disk.remove_dir_all(Path::new("/d")).expect("remove");
    disk.sync_dir(Path::new("/")).expect("sync");
    assert!(
        disk.power_loss(PowerLoss::DropUnsynced).list(Path::new("/")).expect("list").is_empty()
    );
}

#[test]
fn after_a_failed_sync_a_later_one_brings_nothing() {
    let mut lost = 0;
    for seed in 0..100 {
        let (disk, file) = disk_with_file(seed);
        write(&file, 0, &[1; 2048]);
        disk.inject(Fault {
            call: Call::Sync,
            path_part: "/d/f".to_owned(),
            after: 0,
            times: 1,
            errno: libc::EIO,
        });
        assert_eq!(file.sync_data().expect_err("planned").raw_os_error(), Some(libc::EIO));
        file.sync_data().expect("the kernel forgot");
        let after = disk.power_loss(PowerLoss::Random);
        lost += usize::from(content(&after, "/d/f").expect("there") != [1; 2048]);
    }
    assert!(lost > 50, "{lost}");
}

#[test]
fn planned_errors_count_their_calls() {
    let (disk, file) = disk_with_file(1);
    disk.inject(Fault {
        call: Call::Write,
        path_part: String::new(),
        after: 1,
        times: 1,
        errno: libc::EIO,
    });
    write(&file, 0, b"a");
    assert!(file.write_all_at(&[Bytes::from_static(b"b")], 1).is_err());
    write(&file, 1, b"c");
    assert_eq!(content(&disk, "/d/f").expect("there"), b"ac");
}

#[test]
fn a_full_disk_takes_what_fits() {
    let (disk, file) = disk_with_file(1);
    disk.set_capacity(Some(6));
    write(&file, 0, b"abcd");
    let error = file.write_all_at(&[Bytes::from_static(b"efgh")], 4).expect_err("full");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    assert_eq!(content(&disk, "/d/f").expect("there"), b"abcdef");
    write(&file, 0, b"ABCDEF");
    file.set_len(2).expect("cut");
    assert_eq!(disk.free_bytes(Path::new("/")).expect("free"), 4);
}

#[test]
fn the_power_can_go_at_each_change() {
    let run = |disk: &SimDisk| -> std::io::Result<()> {
        disk.create_dir_all(Path::new("/d"))?;
        disk.sync_dir(Path::new("/"))?;
        let file = disk.open(Path::new("/d/f"), OpenMode::Create)?;
        disk.sync_dir(Path::new("/d"))?;
        file.write_all_at(&[Bytes::from_static(b"abc")], 0)?;
        file.sync_data()
    };
    let whole = SimDisk::new(5);
    run(&whole).expect("no fault");
    assert_eq!(whole.changes(), 6);
    for change in 0..whole.changes() {
        let disk = SimDisk::new(5);
        disk.power_off_at(change);
        run(&disk).expect_err("off");
        assert!(disk.is_off());
        let after = disk.power_loss(PowerLoss::Random);
        let found = content(&after, "/d/f");
        assert!(change > 3 || found.is_none_or(|data| data.is_empty()), "change {change}");
    }
}

#[test]
fn locks_exclude_and_end_with_the_process() {
    let disk = SimDisk::new(1);
    let guard = FileSystem::lock(&disk, Path::new("/.lock")).expect("first");
    assert!(FileSystem::lock(&disk, Path::new("/.lock")).is_err());
    drop(guard);
    let _guard = FileSystem::lock(&disk, Path::new("/.lock")).expect("free again");
    assert!(FileSystem::lock(&disk.kill(), Path::new("/.lock")).is_ok());
}
