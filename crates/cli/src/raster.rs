//! Pictures as PNG, rendered from SVG with fonts that are part of the command.

use std::fs;
use std::path::Path;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

/// The scale from SVG to PNG pixels, so that small letters are readable.
const SCALE: f32 = 2.0;

/// The fonts. Their licence is stored beside them.
const FONTS: [&[u8]; 2] =
    [include_bytes!("../fonts/DejaVuSans.ttf"), include_bytes!("../fonts/DejaVuSansMono.ttf")];

/// Renders an SVG picture as PNG.
///
/// # Errors
/// The text is no SVG, or too large for the format.
pub fn png(svg: &str) -> Result<Vec<u8>, String> {
    let mut options = Options::default();
    let fonts = options.fontdb_mut();
    FONTS.iter().for_each(|font| fonts.load_font_data(font.to_vec()));
    fonts.set_sans_serif_family("DejaVu Sans");
    fonts.set_monospace_family("DejaVu Sans Mono");
    let fault = |cause: &dyn std::fmt::Display| format!("the picture cannot be drawn: {cause}");
    let tree = Tree::from_str(svg, &options).map_err(|cause| fault(&cause))?;
    let pixels = |length: f32| (length * SCALE).ceil() as u32;
    let (width, height) = (pixels(tree.size().width()), pixels(tree.size().height()));
    let mut pixmap = Pixmap::new(width, height).ok_or_else(|| fault(&"it is too large"))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixmap.as_mut());
    pixmap.encode_png().map_err(|cause| fault(&cause))
}

/// Writes a picture to a file, in the format of the file's extension.
///
/// # Errors
/// The extension is neither of the two formats, or the file cannot be written.
pub fn write(file: &Path, svg: String) -> Result<(), String> {
    let bytes = match file.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => svg.into_bytes(),
        Some("png") => png(&svg)?,
        _ => {
            let name = file.display();
            return Err(format!("{name}: the name of a picture must end with .svg or .png"));
        }
    };
    fs::write(file, bytes).map_err(|cause| format!("{} cannot be written: {cause}", file.display()))
}

/// Escapes text for an SVG.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of pixels of a picture that are darker than a middle gray.
    fn dark(svg: &str) -> usize {
        let pixmap = Pixmap::decode_png(&png(svg).unwrap()).unwrap();
        pixmap.pixels().iter().filter(|pixel| pixel.red() < 128).count()
    }

    fn with(content: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100\" height=\"20\" font-size=\"12\">\
             <rect width=\"100\" height=\"20\" fill=\"white\"/>{content}</svg>"
        )
    }

    #[test]
    fn pictures_must_end_in_svg_or_png() {
        let output_text = write(Path::new("waits.gif"), with("")).unwrap_err();
        assert!(
            output_text.starts_with("waits.gif: ") && output_text.contains(".svg or .png"),
            "{output_text}"
        );
    }

    #[test]
    fn pictures_are_twice_as_large_as_their_descriptions() {
        let pixmap = Pixmap::decode_png(&png(&with("")).unwrap()).unwrap();
        assert_eq!((pixmap.width(), pixmap.height()), (200, 40));
        assert_eq!(dark(&with("")), 0);
        assert_eq!(dark(&with("<rect width=\"10\" height=\"5\"/>")), 20 * 10);
    }

    #[test]
    fn letters_of_both_fonts_are_drawn() {
        for family in ["monospace", "sans-serif"] {
            let text = |words: &str| {
                dark(&with(&format!("<text y=\"12\" font-family=\"{family}\">{words}</text>")))
            };
            assert!(text("µ") > 20, "{family}: {}", text("µ"));
            assert!(text("NUMA node") > 5 * text("µ"), "{family}");
        }
    }

    #[test]
    fn what_is_no_picture_is_reported() {
        assert!(png("<svg").unwrap_err().contains("cannot be drawn"));
    }
}
