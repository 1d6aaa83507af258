//! What a load showed, as text or JSON.

use serde_json::json;

use super::Common;
use super::run::Measured;

/// Prints it to stdout.
pub(super) fn print(name: &str, measured: &Measured, common: &Common) {
    if common.json {
        println!("{}", to_json(name, measured));
        return;
    }
    print!("{}", to_text(name, measured));
}

fn milliseconds(measured: &Measured, quantile: f64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a number to print")]
    let nanos = measured.latencies.value_at_quantile(quantile) as f64;
    nanos / 1e6
}

#[allow(clippy::cast_precision_loss, reason = "numbers to print")]
fn to_json(name: &str, measured: &Measured) -> serde_json::Value {
    let seconds = measured.seconds;
    let requests = measured.requests as f64;
    let mut value = json!({
        "load": name,
        "seconds": seconds,
        "requests": measured.requests,
        "requests_per_s": requests / seconds,
        "records_per_s": measured.records / seconds,
        "mb_per_s": measured.bytes / 1e6 / seconds,
        "latency_ms": {
            "p50": milliseconds(measured, 0.5),
            "p99": milliseconds(measured, 0.99),
            "p99_9": milliseconds(measured, 0.999),
            "max": milliseconds(measured, 1.0),
        },
        "generator_cpu_seconds": measured.generator_cpu_seconds,
    });
    if let Some(broker) = measured.broker {
        let cpu = broker.cpu_seconds.max(0.005);
        value["broker"] = json!({
            "cpu_seconds": broker.cpu_seconds,
            "requests_per_cpu_s": requests / cpu,
            "records_per_cpu_s": measured.records / cpu,
            "mb_per_cpu_s": measured.bytes / 1e6 / cpu,
            "rss_mb_before": broker.resident_bytes_before as f64 / 1e6,
            "rss_mb": broker.resident_bytes as f64 / 1e6,
        });
    }
    value
}

#[allow(clippy::cast_precision_loss, reason = "numbers to print")]
fn to_text(name: &str, measured: &Measured) -> String {
    let seconds = measured.seconds;
    let requests = measured.requests as f64;
    let mut text = format!(
        "{name}: {seconds:.1} s\n  {} requests/s  {} records/s  {:.1} MB/s\n  latency ms  p50 {:.3}  p99 {:.3}  p99.9 {:.3}  max {:.3}\n",
        thousands(requests / seconds),
        thousands(measured.records / seconds),
        measured.bytes / 1e6 / seconds,
        milliseconds(measured, 0.5),
        milliseconds(measured, 0.99),
        milliseconds(measured, 0.999),
        milliseconds(measured, 1.0),
    );
    if let Some(broker) = measured.broker {
        let cpu = broker.cpu_seconds.max(0.005);
        text.push_str(&format!(
            "  broker: {:.2} CPU s  {} requests, {} records, {:.0} MB per CPU s  memory {:.1} MB, {:.1} before\n",
            broker.cpu_seconds,
            thousands(requests / cpu),
            thousands(measured.records / cpu),
            measured.bytes / 1e6 / cpu,
            broker.resident_bytes as f64 / 1e6,
            broker.resident_bytes_before as f64 / 1e6,
        ));
    }
    text.push_str(&format!("  generator: {:.2} CPU s\n", measured.generator_cpu_seconds));
    text
}

/// A whole number with commas.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::*;
    use crate::bench::run::Broker;

    #[test]
    fn numbers_are_per_second_and_per_cpu_second() {
        let mut latencies = Histogram::new(3).expect("fine");
        latencies.record(2_000_000).expect("fine");
        let measured = Measured {
            seconds: 2.0,
            requests: 4000,
            records: 40_000.0,
            bytes: 4e6,
            latencies,
            broker: Some(Broker {
                cpu_seconds: 0.5,
                resident_bytes_before: 0,
                resident_bytes: 12_000_000,
            }),
            generator_cpu_seconds: 0.1,
        };
        let json = to_json("produce", &measured);
        assert_eq!(json["requests_per_s"], 2000.0);
        assert_eq!(json["broker"]["records_per_cpu_s"], 80_000.0);
        let text = to_text("produce", &measured);
        assert!(text.contains("2,000 requests/s  20,000 records/s  2.0 MB/s"), "{text}");
        assert!(text.contains("p50 2.0"), "{text}");
        assert!(text.contains("8,000 requests, 80,000 records, 8 MB per CPU s"), "{text}");
    }
}
