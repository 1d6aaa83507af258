//! Kafka's own performance tools, as loads.

use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::broker::{Broker, kafka_script};

fn run(class: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let fetched = Command::new(kafka_script()).arg("fetch").stderr(Stdio::inherit()).output()?;
    let libraries = String::from_utf8(fetched.stdout)?;
    // As Kafka's own scripts run its tools, and unlike `kafka.sh tool`, whose JVM is made for short runs.
    let log = kafka_script().with_file_name("log4j2-tools.yaml");
    let output = Command::new("java")
        .args(["-Xmx512M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"])
        .arg(format!("-Dlog4j2.configurationFile={}", log.display()))
        .arg("-cp")
        .arg(format!("{}/*", libraries.trim()))
        .arg(class)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .context("java")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{class}: {text}{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}

/// Runs ProducerPerformance; records per second and CPU seconds of the broker.
pub(crate) fn produce(
    broker: &Broker,
    topic: &str,
    records: u64,
    properties: &[&str],
) -> anyhow::Result<(f64, f64)> {
    let (bootstrap, records) = (broker.bootstrap(), records.to_string());
    let mut arguments = vec![
        "--topic",
        topic,
        "--num-records",
        &records,
        "--record-size",
        "100",
        "--throughput",
        "-1",
        "--bootstrap-server",
        &bootstrap,
    ];
    if !properties.is_empty() {
        arguments.push("--command-property");
        arguments.extend(properties);
    }
    let before = broker.cpu_seconds()?;
    let text = run("org.apache.kafka.tools.ProducerPerformance", &arguments)?;
    let cpu = broker.cpu_seconds()? - before;
    let last = text.lines().rfind(|line| line.contains("99.9th")).context("no summary line")?;
    let rate = last
        .split(", ")
        .find_map(|part| part.split_once(" records/sec"))
        .and_then(|(rate, _)| rate.trim().parse().ok())
        .with_context(|| format!("no rate in {last:?}"))?;
    Ok((rate, cpu))
}

/// Runs ConsumerPerformance; CPU seconds of the broker.
pub(crate) fn consume(broker: &Broker, topic: &str, records: u64) -> anyhow::Result<f64> {
    let (bootstrap, wanted) = (broker.bootstrap(), records.to_string());
    let arguments = [
        "--topic",
        topic,
        "--num-records",
        &wanted,
        "--bootstrap-server",
        &bootstrap,
        "--hide-header",
    ];
    let before = broker.cpu_seconds()?;
    let text = run("org.apache.kafka.tools.ConsumerPerformance", &arguments)?;
    let cpu = broker.cpu_seconds()? - before;
    let line = text.lines().rfind(|line| line.contains(", ")).context("no summary line")?;
    let consumed: u64 = line.split(", ").nth(4).and_then(|field| field.parse().ok()).unwrap_or(0);
    if consumed < records {
        bail!("only {consumed} of {records} records were consumed");
    }
    Ok(cpu)
}
