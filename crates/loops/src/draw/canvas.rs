//! A grid of characters, and lines that join where they cross.

use crate::draw::Colours;

/// The style of a character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    #[default]
    Plain,
    Name,
    Gate,
    Hold,
    Line,
}

impl Style {
    const fn sequence(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Name => "\u{1b}[1m",
            Self::Gate => "\u{1b}[33m",
            Self::Hold => "\u{1b}[35m",
            Self::Line => "\u{1b}[2m",
        }
    }
}

const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;

#[derive(Clone, Copy, Default)]
struct Cell {
    letter: Option<char>,
    style: Style,
    /// The directions of lines from here, and their owner.
    directions: u8,
    owner: usize,
}

/// A grid that grows downwards.
pub struct Canvas {
    width: usize,
    lines: Vec<Vec<Cell>>,
}

impl Canvas {
    pub const fn new(width: usize) -> Self {
        Self { width, lines: Vec::new() }
    }

    pub const fn height(&self) -> usize {
        self.lines.len()
    }

    fn cell(&mut self, x: usize, y: usize) -> Option<&mut Cell> {
        while self.lines.len() <= y {
            self.lines.push(vec![Cell::default(); self.width]);
        }
        self.lines.get_mut(y)?.get_mut(x)
    }

    pub fn write(&mut self, x: usize, y: usize, text: &str, style: Style) {
        for (index, letter) in text.chars().enumerate() {
            if let Some(cell) = self.cell(x + index, y) {
                *cell = Cell { letter: Some(letter), style, ..Cell::default() };
            }
        }
    }

    /// Lines of one owner join; a vertical line crosses over another owner's line.
    fn line(&mut self, x: usize, y: usize, directions: u8, owner: usize) {
        let Some(cell) = self.cell(x, y) else { return };
        let is_vertical = directions & (LEFT | RIGHT) == 0;
        if cell.directions == 0 || cell.owner == owner {
            cell.directions |= directions;
            cell.owner = owner;
        } else if is_vertical && cell.directions & (UP | DOWN) == 0 {
            cell.directions = directions;
            cell.owner = owner;
        }
        cell.style = Style::Line;
    }

    /// A vertical line from `top` to `bottom`, both included.
    pub fn vertical(&mut self, x: usize, top: usize, bottom: usize, owner: usize) {
        for y in top..=bottom {
            self.line(x, y, UP | DOWN, owner);
        }
    }

    /// A horizontal line that joins the columns from above and the columns below.
    pub fn track(&mut self, y: usize, above: &[usize], below: &[usize], owner: usize) {
        let columns = || above.iter().chain(below).copied();
        let (Some(left), Some(right)) = (columns().min(), columns().max()) else { return };
        for x in left..=right {
            let mut directions = 0;
            if x > left {
                directions |= LEFT;
            }
            if x < right {
                directions |= RIGHT;
            }
            if above.contains(&x) {
                directions |= UP;
            }
            if below.contains(&x) {
                directions |= DOWN;
            }
            self.line(x, y, directions, owner);
        }
    }

    /// The lines of text, without trailing spaces.
    pub fn render(&self, colours: Colours) -> Vec<String> {
        self.lines.iter().map(|line| render(line, colours)).collect()
    }
}

fn render(line: &[Cell], colours: Colours) -> String {
    let is_blank =
        |cell: &Cell| cell.directions == 0 && cell.letter.is_none_or(|letter| letter == ' ');
    let end = line.iter().rposition(|cell| !is_blank(cell)).map_or(0, |index| index + 1);
    let mut text = String::new();
    let mut style = Style::Plain;
    for cell in line.iter().take(end) {
        let letter = cell.letter.unwrap_or_else(|| joint(cell.directions));
        let wanted = if letter == ' ' { Style::Plain } else { cell.style };
        if colours == Colours::Ansi && wanted != style {
            if style != Style::Plain {
                text.push_str("\u{1b}[0m");
            }
            text.push_str(wanted.sequence());
            style = wanted;
        }
        text.push(letter);
    }
    if style != Style::Plain {
        text.push_str("\u{1b}[0m");
    }
    text
}

const fn joint(directions: u8) -> char {
    const JOINTS: [char; 16] =
        [' ', '│', '│', '│', '─', '┘', '┐', '┤', '─', '└', '┌', '├', '─', '┴', '┬', '┼'];
    match JOINTS.split_at(directions as usize & 15).1 {
        [joint, ..] => *joint,
        [] => ' ',
    }
}

/// Styles text outside a grid.
pub fn styled(text: &str, style: Style, colours: Colours) -> String {
    match colours {
        Colours::Ansi if style != Style::Plain => format!("{}{text}\u{1b}[0m", style.sequence()),
        Colours::Ansi | Colours::None => text.to_owned(),
    }
}
