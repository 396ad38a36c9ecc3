//! The layout of a picture of nested boxes: the position of each object.

use topology::{Kind, ObjectId, Topology};

use super::processes::ShownProcess;
use super::text::title;

/// A picture: rectangles with lines of text, outer boxes before inner ones.
pub struct Picture {
    /// Its size in pixels.
    pub width: usize,
    pub height: usize,
    /// The rectangles.
    pub boxes: Vec<Box>,
}

/// A rectangle with text that begins in its upper left corner.
pub struct Box {
    pub left: usize,
    pub top: usize,
    pub width: usize,
    pub height: usize,
    pub color: Color,
    pub lines: Vec<String>,
}

/// A color as red, green, blue.
pub type Color = [u8; 3];

/// Sizes in pixels. The width of a letter is that of the font of [`picture`](super::picture).
pub const LETTER_WIDTH: usize = 8;
pub const LINE_HEIGHT: usize = 14;
/// The distance between a box and its contents.
pub const PADDING: usize = 6;
/// The distance between boxes.
const GAP: usize = 6;

const WHITE: Color = [255, 255, 255];

/// A box without a position.
struct Draft {
    color: Color,
    lines: Vec<String>,
    /// Rows of inner boxes.
    rows: Vec<Vec<Draft>>,
    /// The minimum width, that of its siblings.
    width_min: usize,
    width: usize,
    height: usize,
}

/// Arranges a machine with the processes on it, and a legend for the boxes with only a number.
pub fn arrange(topology: &Topology, processes: &[ShownProcess]) -> Picture {
    let mut root = Draft::of_object(topology, topology.root(), processes);
    let mut legend = vec!["white: hardware thread".to_owned()];
    if !processes.is_empty() {
        legend.push("coloured: process, by rank".to_owned());
    }
    root.rows.push(vec![Draft::new(color(Kind::Machine), legend)]);
    root.measure();
    let mut picture =
        Picture { width: root.width + 2 * GAP, height: root.height + 2 * GAP, boxes: Vec::new() };
    root.place(GAP, GAP, &mut picture.boxes);
    picture
}

fn color(kind: Kind) -> Color {
    match kind {
        Kind::Cluster | Kind::Switch => [235, 235, 245],
        Kind::Machine => [250, 250, 250],
        Kind::Package | Kind::Die => [221, 231, 243],
        Kind::Group => [236, 236, 236],
        Kind::NumaNode => [205, 230, 208],
        Kind::Cache(_) => [248, 238, 208],
        Kind::Core => [214, 214, 214],
        Kind::Thread => WHITE,
        Kind::Pci | Kind::Device(_) => [226, 213, 236],
    }
}

/// The colors of processes, chosen so that neighbours can be distinguished.
const OF_PROCESSES: [Color; 8] = [
    [31, 119, 180],
    [255, 127, 14],
    [44, 160, 44],
    [214, 39, 40],
    [148, 103, 189],
    [140, 86, 75],
    [227, 119, 194],
    [23, 160, 170],
];

impl Draft {
    fn new(color: Color, lines: Vec<String>) -> Self {
        Self { color, lines, rows: Vec::new(), width_min: 0, width: 0, height: 0 }
    }

    fn of_object(topology: &Topology, id: ObjectId, processes: &[ShownProcess]) -> Self {
        // A cache or a core that contains only one object shares a box with it.
        let mut lines = vec![title(topology, id)];
        let mut last = id;
        while let [only] = topology[last].children[..] {
            let is_small = |id: ObjectId| {
                matches!(topology[id].kind, Kind::Cache(_) | Kind::Core | Kind::Group)
            };
            let has_more =
                !topology[last].memories.is_empty() || !topology[last].devices.is_empty();
            if !is_small(last) || has_more || topology[only].kind == Kind::Thread {
                break;
            }
            lines.push(title(topology, only));
            last = only;
        }
        if topology[id].kind == Kind::Thread {
            let number = topology[id].system.unwrap_or_default();
            let machine = topology.holder(id, Kind::Machine).unwrap_or(topology.root());
            return Self::of_thread(topology, machine, number, processes);
        }
        let object = &topology[last];
        // Ready threads of a part are shown at the outermost box of this part.
        let is_outermost = topology[id]
            .parent
            .is_none_or(|parent| topology[parent].threads != topology[id].threads);
        for process in processes.iter().filter(|_| is_outermost && !object.kind.is_device()) {
            let ready = process.ready_at(&topology[id].threads);
            if ready > 0 {
                lines.push(format!("{}: {ready} ready", process.name()));
            }
        }
        let mut draft = Self::new(color(object.kind), lines);
        let aside: Vec<Self> = object
            .memories
            .iter()
            .map(|id| Self::of_object(topology, *id, processes))
            .chain(object.devices.iter().map(|id| Self::of_device(topology, *id)))
            .collect();
        let inside: Vec<Self> =
            object.children.iter().map(|id| Self::of_object(topology, *id, processes)).collect();
        draft.rows = rows(inside);
        draft.rows.extend(rows(aside));
        draft
    }

    fn of_thread(
        topology: &Topology,
        machine: ObjectId,
        number: u32,
        processes: &[ShownProcess],
    ) -> Self {
        let mut draft =
            Self::new(color(Kind::Thread), vec![format!("{number:>0$}", digits(topology))]);
        let is_here = |process: &&ShownProcess| {
            let is_bound = || {
                let cpuset = process.cpuset(topology, machine);
                cpuset.is_some_and(|cpuset| cpuset.contains(number as usize))
            };
            process.machine(topology) == machine
                && (is_bound() || process.on_processor(number).is_some())
        };
        let marks: Vec<Self> = processes
            .iter()
            .filter(is_here)
            .map(|process| {
                let order = process.rank.unwrap_or(process.number.unsigned_abs()) as usize;
                let lines = std::iter::once(process.name()).chain(process.on_processor(number));
                Self::new(OF_PROCESSES[order % OF_PROCESSES.len()], lines.collect())
            })
            .collect();
        draft.rows = rows(marks);
        draft
    }

    fn of_device(topology: &Topology, id: ObjectId) -> Self {
        let object = &topology[id];
        let mut lines = vec![format!("{} {}", object.kind, object.label())];
        lines.extend(
            object
                .devices
                .iter()
                .map(|id| format!("{} {}", topology[*id].kind, topology[*id].label())),
        );
        Self::new(color(object.kind), lines)
    }

    /// Computes the size of the box.
    fn measure(&mut self) {
        let letters = self.lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
        let mut width = letters * LETTER_WIDTH;
        let mut height = self.lines.len() * LINE_HEIGHT;
        for row in &mut self.rows {
            row.iter_mut().for_each(Self::measure);
            let tallest = row.iter().map(|draft| draft.height).max().unwrap_or_default();
            row.iter_mut().for_each(|draft| draft.height = tallest);
            let together: usize = row.iter().map(|draft| draft.width + GAP).sum();
            width = width.max(together.saturating_sub(GAP));
            height += tallest + GAP;
        }
        self.width = (width + 2 * PADDING).max(self.width_min);
        self.height = height + PADDING;
    }

    fn place(self, left: usize, top: usize, boxes: &mut Vec<Box>) {
        let mut below = top + PADDING / 2 + self.lines.len() * LINE_HEIGHT + PADDING / 2;
        let Self { color, lines, width, height, rows, .. } = self;
        boxes.push(Box { left, top, width, height, color, lines });
        for row in rows {
            let mut beside = left + PADDING;
            let tallest = row.first().map_or(0, |draft| draft.height);
            for draft in row {
                let width = draft.width;
                draft.place(beside, below, boxes);
                beside += width + GAP;
            }
            below += tallest + GAP;
        }
    }
}

/// The number of digits of the largest hardware thread number.
fn digits(topology: &Topology) -> usize {
    topology.threads().iter().last().unwrap_or_default().to_string().len()
}

/// Arranges boxes in rows, so that the whole has about the proportions of a screen.
fn rows(mut drafts: Vec<Draft>) -> Vec<Vec<Draft>> {
    if drafts.is_empty() {
        return Vec::new();
    }
    drafts.iter_mut().for_each(Draft::measure);
    let width = drafts.iter().map(|draft| draft.width).max().unwrap_or(1).max(1);
    drafts.iter_mut().for_each(|draft| draft.width_min = width);
    let height = drafts.iter().map(|draft| draft.height).max().unwrap_or(1).max(1);
    // The number of columns follows from columns * width = 1.7 * count / columns * height.
    let ideal = (1.7 * drafts.len() as f64 * height as f64 / width as f64).sqrt();
    let columns = (ideal.round() as usize).clamp(1, drafts.len());
    // Rows of equal length look best.
    let even = (columns..=drafts.len().min(columns * 2))
        .find(|columns| drafts.len().is_multiple_of(*columns));
    let columns = even.unwrap_or(columns);
    let mut rows = Vec::new();
    while !drafts.is_empty() {
        let rest = drafts.split_off(columns.min(drafts.len()));
        rows.push(std::mem::replace(&mut drafts, rest));
    }
    rows
}
