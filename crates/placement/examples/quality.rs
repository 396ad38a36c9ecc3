//! Prints the table of docs/user/placement.md: the hop-weighted bytes of our placements divided by
//! those of other placements.
//!
//! `cargo run --release -p placement --example quality [RANKS...]`; with `networks` instead of
//! numbers, it prints the table of networks, of those alone whose names contain a second word,
//! and of those matrices alone whose names contain a third one.

#![forbid(unsafe_code)]

#[path = "../tests/comparison/mod.rs"]
mod comparison;

fn main() {
    let words = std::env::args().skip(1);
    let mut sizes: Vec<u32> = words.filter_map(|word| word.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![64, 512, 4096];
    }
    let mut words = std::env::args().skip(1);
    if words.next().is_some_and(|word| word == "networks") {
        let [network, matrix] = [(); 2].map(|()| words.next().unwrap_or_default());
        return networks(&network, &matrix);
    }
    println!(
        "| ranks | matrix | packed | scattered | random | Scotch | its fullest leaf | seconds |"
    );
    println!("|---:|---|---:|---:|---:|---:|---:|---:|");
    for row in sizes.into_iter().flat_map(comparison::compare) {
        let scotch = row.to_scotch.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
        println!(
            "| {} | {} | {:.3} | {:.3} | {:.3} | {scotch} | {} | {:.2} |",
            row.ranks,
            row.name,
            row.to_packed,
            row.to_scattered,
            row.to_random,
            row.fullest_of_scotch,
            row.seconds,
        );
    }
}

fn networks(wanted: &str, matrix: &str) {
    println!("| network | matrix | packed | random | Scotch | its fullest host | seconds |");
    println!("|---|---|---:|---:|---:|---:|---:|");
    let all = comparison::network::all().into_iter();
    for network in all.filter(|network| network.name.contains(wanted)) {
        for row in comparison::compare_on(&network, matrix) {
            let scotch = row.to_scotch.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
            println!(
                "| {} | {} | {:.3} | {:.3} | {scotch} | {} | {:.2} |",
                network.name,
                row.name,
                row.to_packed,
                row.to_random,
                row.fullest_of_scotch,
                row.seconds,
            );
        }
    }
}
