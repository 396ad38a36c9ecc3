//! A picture as SVG and as PNG.

use std::fmt::Write;

use font8x8::UnicodeFonts;

use super::layout::{Box, Color, LETTER_WIDTH, LINE_HEIGHT, PADDING, Picture};

const BORDER: Color = [90, 90, 90];
const BLACK: Color = [0, 0, 0];
const WHITE: Color = [255, 255, 255];

/// The picture as SVG.
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
            let (x, y) = (left + PADDING, top + PADDING / 2 + (index + 1) * LINE_HEIGHT - 3);
            let length = line.chars().count() * LETTER_WIDTH;
            let _ = writeln!(
                text,
                "<text x=\"{x}\" y=\"{y}\" textLength=\"{length}\" lengthAdjust=\"spacingAndGlyphs\" fill=\"{}\">{}</text>",
                hexadecimal(ink(*color)),
                escaped(line)
            );
        }
    }
    text + "</svg>\n"
}

/// The picture as PNG, twice as large so that its letters can be read.
///
/// # Errors
/// It is too large for the format.
pub fn png(picture: &Picture) -> Result<Vec<u8>, String> {
    let (width, height) = (picture.width * SCALE, picture.height * SCALE);
    let mut canvas = Canvas { width, pixels: vec![255; width * height * 3] };
    for one in &picture.boxes {
        canvas.draw(one);
    }
    let mut bytes = Vec::new();
    let size =
        |pixels: usize| u32::try_from(pixels).map_err(|_| "the picture is too large".to_owned());
    let mut encoder = png::Encoder::new(&mut bytes, size(width)?, size(height)?);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let written =
        encoder.write_header().and_then(|mut writer| writer.write_image_data(&canvas.pixels));
    written.map_err(|error| format!("the picture cannot be written: {error}"))?;
    Ok(bytes)
}

/// How many pixels of the PNG one of the picture has.
const SCALE: usize = 2;

/// How many rows and columns a letter of the font has.
const FONT: usize = 8;

struct Canvas {
    width: usize,
    /// Red, green, blue, row by row.
    pixels: Vec<u8>,
}

impl Canvas {
    fn draw(&mut self, one: &Box) {
        let Box { left, top, width, height, .. } = *one;
        let (left, top, width, height) = (left * SCALE, top * SCALE, width * SCALE, height * SCALE);
        self.fill(left, top, width, height, BORDER);
        let border = SCALE / 2;
        self.fill(left + border, top + border, width - 2 * border, height - 2 * border, one.color);
        for (index, line) in one.lines.iter().enumerate() {
            let down = top + (PADDING / 2 + index * LINE_HEIGHT + 3) * SCALE;
            for (column, letter) in line.chars().enumerate() {
                let across = left + (PADDING + column * LETTER_WIDTH) * SCALE;
                self.letter(across, down, letter, ink(one.color));
            }
        }
    }

    fn letter(&mut self, left: usize, top: usize, letter: char, color: Color) {
        let Some(rows) = font8x8::BASIC_FONTS.get(letter) else { return };
        for (down, row) in rows.iter().enumerate() {
            for across in (0..FONT).filter(|across| row >> across & 1 == 1) {
                self.fill(left + across * SCALE, top + down * SCALE, SCALE, SCALE, color);
            }
        }
    }

    fn fill(&mut self, left: usize, top: usize, width: usize, height: usize, color: Color) {
        for row in top..top + height {
            let (from, to) =
                (row * self.width + left, row * self.width + (left + width).min(self.width));
            if let Some(pixels) = self.pixels.get_mut(from * 3..to * 3) {
                pixels.chunks_exact_mut(3).for_each(|pixel| pixel.copy_from_slice(&color));
            }
        }
    }
}

/// The color in which text can be read on another.
fn ink(on: Color) -> Color {
    let [red, green, blue] = on.map(u32::from);
    if 3 * red + 6 * green + blue < 10 * 150 { WHITE } else { BLACK }
}

fn hexadecimal([red, green, blue]: Color) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
