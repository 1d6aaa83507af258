//! `docs/bench/README.md` and `results.json`.

use std::fmt::Write;

use serde_json::json;

use crate::broker::Kind;
use crate::limits::Limits;
use crate::loads::{METRICS, Metric};
use crate::{Options, Results, plot};

/// Writes what was measured so far.
pub(crate) fn write(
    options: &Options,
    rounds: usize,
    limits: &Limits,
    results: &Results,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(&options.out)?;
    std::fs::write(options.out.join("README.md"), page(options, rounds, limits, results))?;
    std::fs::write(options.out.join("ratios.svg"), plot::ratios(results))?;
    let raw: serde_json::Map<_, _> =
        results.iter().map(|(kind, values)| (kind.key().to_owned(), json!(values))).collect();
    let raw =
        json!({ "machine": limits, "rounds": rounds, "quick": options.is_quick, "results": raw });
    std::fs::write(options.out.join("results.json"), serde_json::to_string_pretty(&raw)? + "\n")?;
    Ok(())
}

/// Median over the rounds.
pub(crate) fn median(results: &Results, kind: Kind, id: &str) -> Option<f64> {
    let mut values = results.get(&kind)?.get(id)?.clone();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.is_empty() {
        None
    } else if values.len() % 2 == 1 {
        Some(values[middle])
    } else {
        Some(f64::midpoint(values[middle - 1], values[middle]))
    }
}

/// How many times better than Kafka.
pub(crate) fn ratio(results: &Results, kind: Kind, metric: &Metric) -> Option<f64> {
    let kafka = median(results, Kind::Kafka, metric.id)?;
    let other = median(results, kind, metric.id)?;
    let ratio = if metric.is_more_better { other / kafka } else { kafka / other.max(1e-6) };
    ratio.is_finite().then_some(ratio)
}

fn page(options: &Options, rounds: usize, limits: &Limits, results: &Results) -> String {
    let mut text = String::from("# Kelda and Apache Kafka, side by side\n\n");
    let _ = writeln!(
        text,
        "Made by `make bench{}`; {rounds} {}, medians. Each round runs every broker in turn, alone on the machine, on an empty directory, warmed up, through all loads; rounds begin with another broker each. The load generator ([`kelda bench`](../../broker/src/bench/mod.rs)) and Kafka's own tools run beside the broker on the same CPUs. CPU-seconds are the broker process's. Kafka runs with the settings of its own start script; Kelda with `kelda.durability=page-cache`, which is Kafka's own way, and with its default, `fsync`, which answers `acks=all` after an fdatasync.\n",
        if options.is_quick { " BENCH=--quick" } else { "" },
        if rounds == 1 { "round" } else { "rounds" },
    );
    if options.is_quick {
        text.push_str("**A quick run**: short loads, a quarter of the records in Java's tools and in the restart (CPU seconds scaled back up). Good for a glance, not for a claim.\n\n");
    }
    let _ =
        writeln!(text, "The machine and its limits, measured in this run: {}.\n", limits.summary());
    text.push_str("![Ratios to Apache Kafka](ratios.svg)\n\n");
    text.push_str("| load | number | Apache Kafka 4.4.0 | Kelda, page cache | ratio | Kelda, fsync | ratio | goal |\n");
    text.push_str("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |\n");
    for metric in METRICS {
        let value = |kind| median(results, kind, metric.id).map_or_else(|| "-".to_owned(), number);
        let times = |kind| {
            ratio(results, kind, metric)
                .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.1}x"))
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            metric.load,
            metric.what,
            value(Kind::Kafka),
            value(Kind::PageCache),
            times(Kind::PageCache),
            value(Kind::Fsync),
            times(Kind::Fsync),
            goal(results, limits, metric),
        );
    }
    text.push_str("\nA ratio above 1 is better than Kafka, whichever way the number counts. Goals are for `page-cache`, but for the row with records of 1 KiB, which is for `fsync`. Values of each round: [results.json](results.json).\n");
    text
}

fn goal(results: &Results, limits: &Limits, metric: &Metric) -> String {
    if metric.goal == 0.0 {
        return String::new();
    }
    let kind = if metric.id == "stream.p99" { Kind::Fsync } else { Kind::PageCache };
    let verdict = match median(results, kind, metric.id) {
        None => "",
        Some(value) if metric.is_more_better && value >= metric.goal => " reached",
        Some(value) if !metric.is_more_better && value <= metric.goal => " reached",
        Some(_) => " **missed**",
    };
    let bound = match metric.id {
        "ping.requests" => limits.bare_answers_per_cpu_s,
        "fetch-64k.mb" => limits.bare_64k_mb_per_cpu_s,
        "fetch-1m.mb" => limits.bare_1m_mb_per_cpu_s,
        _ => return format!("{}{verdict}", number(metric.goal)),
    };
    format!("{}{verdict}; a bare server {}", number(metric.goal), number(bound))
}

/// Three digits that mean something.
pub(crate) fn number(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.2} M", value / 1e6),
        value if value >= 1e4 => format!("{:.1} k", value / 1e3),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let mut results = Results::new();
        for (kind, factor) in [(Kind::Kafka, 1.0), (Kind::PageCache, 6.0), (Kind::Fsync, 4.0)] {
            let values = results.entry(kind).or_default();
            for (at, metric) in METRICS.iter().enumerate() {
                let at = f64::from(u32::try_from(at).expect("few"));
                let base = 10.0 * (at + 1.0);
                let value =
                    if metric.is_more_better { base * factor } else { base / factor / (at + 1.0) };
                values.insert(metric.id, vec![value * 3.0, value, value]);
            }
        }
        results
    }

    #[test]
    fn medians_and_ratios_count_in_the_right_direction() {
        let results = results();
        let metric = |id| METRICS.iter().find(|metric| metric.id == id).expect("known");
        assert_eq!(median(&results, Kind::Kafka, "produce-500.records"), Some(10.0));
        assert_eq!(ratio(&results, Kind::PageCache, metric("produce-500.records")), Some(6.0));
        let later = ratio(&results, Kind::PageCache, metric("start.ms")).expect("both are there");
        assert!(later > 1.0, "less is better: {later}");
        assert_eq!(ratio(&Results::new(), Kind::Fsync, metric("start.ms")), None);
    }

    #[test]
    fn the_picture_is_whole() {
        let svg = plot::ratios(&results());
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("6.0x").count(), METRICS.len());
        if let Some(path) = std::env::var_os("UPDATE_PICTURE") {
            std::fs::write(path, svg).expect("written");
        }
    }
}
