//! The picture: for each number, how many times better than Apache Kafka, on a logarithmic scale.

use std::fmt::Write;

use crate::Results;
use crate::broker::Kind;
use crate::loads::METRICS;
use crate::report::ratio;

const LABELS: f64 = 470.0;
const BARS: f64 = 470.0;
const ROW: f64 = 30.0;
const TOP: f64 = 64.0;
/// Ratios at the ends of the scale.
const LEAST: f64 = 0.25;
const MOST: f64 = 256.0;

fn x(ratio: f64) -> f64 {
    let clamped = ratio.clamp(LEAST, MOST);
    LABELS + BARS * (clamped / LEAST).ln() / (MOST / LEAST).ln()
}

/// Bars of both durabilities for every number that both brokers have.
pub(crate) fn ratios(results: &Results) -> String {
    let rows: Vec<_> = METRICS
        .iter()
        .map(|metric| {
            (metric, ratio(results, Kind::PageCache, metric), ratio(results, Kind::Fsync, metric))
        })
        .filter(|(_, page_cache, fsync)| page_cache.is_some() || fsync.is_some())
        .collect();
    let bottom = TOP + ROW * f64::from(u32::try_from(rows.len()).unwrap_or(0));
    let (width, height) = (LABELS + BARS + 60.0, bottom + 16.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n<text x=\"12\" y=\"24\" font-size=\"16\" font-weight=\"bold\">How many times better than Apache Kafka 4.4.0</text>\n",
    );
    for (at, (name, colour)) in
        [("page cache, as Kafka", "#2a78b5"), ("fsync, Kelda's default", "#e08a2c")]
            .iter()
            .enumerate()
    {
        let left = LABELS + 190.0 * f64::from(u32::try_from(at).unwrap_or(0));
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"14\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{}\" y=\"24\">{name}</text>",
            left + 18.0,
        );
    }
    let mut tick = LEAST;
    while tick <= MOST {
        let (at, colour) = (x(tick), if (tick - 1.0).abs() < 1e-9 { "#444" } else { "#ddd" });
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\" stroke=\"{colour}\"/><text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{tick}x</text>",
            TOP - 8.0,
        );
        tick *= 4.0;
    }
    for (at, (metric, page_cache, fsync)) in rows.into_iter().enumerate() {
        let y = TOP + ROW * f64::from(u32::try_from(at).unwrap_or(0));
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><text x=\"{}\" y=\"{}\" text-anchor=\"end\" font-size=\"10\" fill=\"#666\">{}</text>",
            LABELS - 8.0,
            y + 13.0,
            escape(metric.load),
            LABELS - 8.0,
            y + 25.0,
            escape(metric.what),
        );
        for (ratio, colour, down) in [(page_cache, "#2a78b5", 4.0), (fsync, "#e08a2c", 15.0)] {
            let Some(ratio) = ratio else { continue };
            let (from, to) = (x(1.0).min(x(ratio)), x(1.0).max(x(ratio)));
            let _ = writeln!(
                svg,
                "<rect x=\"{from:.1}\" y=\"{}\" width=\"{:.1}\" height=\"10\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{}\" font-size=\"10\">{ratio:.1}x</text>",
                y + down,
                (to - from).max(1.0),
                to + 4.0,
                y + down + 9.0,
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
