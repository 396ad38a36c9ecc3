//! Prints the tables of docs/studies/scaling.md, and draws its picture.
//!
//! `cargo run --release -p collectives --example hydro_scaling [PICTURE.svg]`

#![forbid(unsafe_code)]

#[path = "../tests/hydro/mod.rs"]
mod hydro;

use std::fmt::Write;

use hydro::{CORES, MEASURED_STRONG, MEASURED_WEAK, MODES, Run};

/// A curve: its name, its color, whether it is dashed, and its points (cores, seconds).
type Curve = (String, &'static str, bool, Vec<(u32, f64)>);

const COLORS: [&str; 3] = ["#1f5fa8", "#d9731a", "#3a8f4d"];

fn main() {
    let mut fields = Vec::new();
    let kinds = [
        ("weak scaling, 390,625 points a core", true, MEASURED_WEAK),
        ("strong scaling, 40,000 x 40,000 points", false, MEASURED_STRONG),
    ];
    for (title, is_weak, measured) in kinds {
        let mut curves: Vec<Curve> = Vec::new();
        println!(
            "\n{title}: seconds\n\n| mode | {} |",
            CORES.map(|cores| cores.to_string()).join(" | ")
        );
        println!("|---|{}", "---:|".repeat(CORES.len()));
        for (number, (mode, threads)) in MODES.into_iter().enumerate() {
            let run = |cores: u32| match is_weak {
                true => Run::weak(cores, threads),
                false => Run::strong(cores, threads),
            };
            let times = CORES.map(|cores| (cores, run(cores).seconds()));
            let searching =
                times.map(|(cores, time)| (cores, time + run(cores).searching_seconds()));
            for (name, times) in
                [(mode.to_owned(), times), (format!("{mode}, searching"), searching)]
            {
                println!(
                    "| {name} | {} |",
                    times.map(|(_, time)| format!("{time:.2}")).join(" | ")
                );
            }
            curves.push((format!("{mode}, searching"), COLORS[number], true, searching.to_vec()));
            let known = CORES.into_iter().skip(4).zip(measured[number]);
            let cells: Vec<String> =
                measured[number].iter().map(|time| format!("{time:.2}")).collect();
            println!("| {mode}, measured | | | | | {} |", cells.join(" | "));
            curves.push((format!("{mode}, measured"), COLORS[number], false, known.collect()));
        }
        fields.push((title, curves));
    }
    if let Some(path) = std::env::args().nth(1) {
        std::fs::write(&path, picture(&fields)).expect("the picture can be written");
    }
}

const WIDTH: f64 = 330.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 50.0;

/// Draws each field with both axes logarithmic.
fn picture(fields: &[(&str, Vec<Curve>)]) -> String {
    let (width, height) = (2.0 * (LEFT + WIDTH) + 30.0, TOP + HEIGHT + 110.0);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"18\" font-size=\"14\" font-weight=\"bold\">HYDRO-like solver on 64 to 40,960 \
         cores: the course, and one searched queue</text>\n"
    );
    for (number, (title, curves)) in fields.iter().enumerate() {
        let left = LEFT + number as f64 * (LEFT + WIDTH);
        let x =
            |cores: u32| left + WIDTH * (f64::from(cores) / 64.0).ln() / (40_960.0_f64 / 64.0).ln();
        let y = |time: f64| {
            TOP + HEIGHT * (1.0 - (time.clamp(0.5, 500.0) / 0.5).ln() / (500.0_f64 / 0.5).ln())
        };
        _ = writeln!(text, "<text x=\"{left}\" y=\"40\">{title}</text>");
        for time in [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0] {
            let at = y(time);
            _ = writeln!(
                text,
                "<path d=\"M{left} {at:.1}h{WIDTH}\" stroke=\"#ddd\"/><text x=\"{:.0}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{time} s</text>",
                left - 6.0,
                at + 4.0
            );
        }
        for cores in [64, 256, 1024, 4096, 16_384] {
            let at = x(cores);
            _ = writeln!(
                text,
                "<path d=\"M{at:.1} {TOP}v{HEIGHT}\" stroke=\"#eee\"/><text x=\"{at:.1}\" y=\"{:.0}\" \
                 text-anchor=\"middle\">{cores}</text>",
                TOP + HEIGHT + 14.0
            );
        }
        for (line, (name, color, is_dashed, points)) in curves.iter().enumerate() {
            let dashes = if *is_dashed { "5 3" } else { "none" };
            let style = format!(
                "fill=\"none\" stroke=\"{color}\" stroke-width=\"1.6\" stroke-dasharray=\"{dashes}\""
            );
            let places: Vec<String> = points
                .iter()
                .map(|(cores, time)| format!("{:.1},{:.1}", x(*cores), y(*time)))
                .collect();
            let below = TOP + HEIGHT + 34.0 + 13.0 * line as f64;
            _ = writeln!(
                text,
                "<polyline {style} points=\"{}\"/><path d=\"M{left} {:.0}h26\" {style}/>\
                 <text x=\"{:.0}\" y=\"{below:.0}\">{name}</text>",
                places.join(" "),
                below - 4.0,
                left + 32.0
            );
        }
    }
    text + "</svg>\n"
}
