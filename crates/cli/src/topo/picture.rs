//! Rendering of a picture as SVG.

use std::fmt::Write;

use crate::raster::escaped;

use super::layout::{Box, Color, LETTER_WIDTH, LINE_HEIGHT, PADDING, Picture};

const BORDER: Color = [90, 90, 90];
const BLACK: Color = [0, 0, 0];
const WHITE: Color = [255, 255, 255];

/// Renders the picture as SVG.
pub fn svg(picture: &Picture) -> String {
    let Picture { width, height, boxes } = picture;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for Box { left, top, width, height, color, lines } in boxes {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "<rect x=\"{left}.5\" y=\"{top}.5\" width=\"{}\" height=\"{}\" rx=\"2\" fill=\"{}\" stroke=\"{}\"/>",
            width - 1,
            height - 1,
            hexadecimal(*color),
            hexadecimal(BORDER)
        );
        for (index, line) in lines.iter().enumerate() {
            // Blanks before a number are not drawn, but they shift the number.
            let number = line.trim_start();
            let letters = number.chars().count();
            let blanks = line.chars().count() - letters;
            let x = left + PADDING + blanks * LETTER_WIDTH;
            let y = top + PADDING / 2 + (index + 1) * LINE_HEIGHT - 3;
            let length = letters * LETTER_WIDTH;
            let _ = writeln!(
                text,
                "<text x=\"{x}\" y=\"{y}\" textLength=\"{length}\" lengthAdjust=\"spacingAndGlyphs\" fill=\"{}\">{}</text>",
                hexadecimal(ink(*color)),
                escaped(number)
            );
        }
    }
    text + "</svg>\n"
}

/// The text color that is readable on another color.
fn ink(on: Color) -> Color {
    let [red, green, blue] = on.map(u32::from);
    if 3 * red + 6 * green + blue < 10 * 150 { WHITE } else { BLACK }
}

fn hexadecimal([red, green, blue]: Color) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}
