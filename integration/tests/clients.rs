//! Stock clients against a broker, without Docker: each writes in every codec and reads back what it wrote, seeks, and works in
//! groups. `integration/clients/run.sh` installs what they need.

use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use integration::harness::{Broker, repository, run};

/// Installing a client may take minutes on a bare machine.
const LIMIT: Duration = Duration::from_secs(600);

fn client(name: &str, scenario: &str) {
    // One at a time: they measure out their patience in seconds, and two cores are soon busy.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(repository().join("integration/clients/run.sh"));
    command.args([name, Broker::shared(), scenario]);
    let printed = run(&command, LIMIT).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(printed.trim_end().ends_with("ok"), "{printed}");
}

macro_rules! clients {
    ($($test:ident: $name:literal $scenario:literal,)*) => {
        $(#[test]
        fn $test() {
            client($name, $scenario);
        })*
    };
}

clients! {
    java_records: "java" "records",
    java_groups: "java" "groups",
    confluent_kafka_records: "confluent" "records",
    confluent_kafka_groups: "confluent" "groups",
    kafka_python_records: "kafka-python" "records",
    kafka_python_groups: "kafka-python" "groups",
    franz_go_records: "franz" "records",
    franz_go_groups: "franz" "groups",
    kcat_records: "kcat" "records",
    kcat_groups: "kcat" "groups",
}
