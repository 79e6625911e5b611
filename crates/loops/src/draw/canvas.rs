//! Characters on a grid, and lines that join where they belong together.

use crate::draw::Colours;

/// How a character is shown.
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
struct Spot {
    letter: Option<char>,
    style: Style,
    /// Where lines go from here, and whose they are.
    ways: u8,
    owner: usize,
}

/// A grid that grows downwards.
pub struct Canvas {
    width: usize,
    lines: Vec<Vec<Spot>>,
}

impl Canvas {
    pub const fn new(width: usize) -> Self {
        Self { width, lines: Vec::new() }
    }

    pub const fn height(&self) -> usize {
        self.lines.len()
    }

    fn spot(&mut self, x: usize, y: usize) -> Option<&mut Spot> {
        while self.lines.len() <= y {
            self.lines.push(vec![Spot::default(); self.width]);
        }
        self.lines.get_mut(y)?.get_mut(x)
    }

    pub fn write(&mut self, x: usize, y: usize, text: &str, style: Style) {
        for (at, letter) in text.chars().enumerate() {
            if let Some(spot) = self.spot(x + at, y) {
                *spot = Spot { letter: Some(letter), style, ..Spot::default() };
            }
        }
    }

    /// Lines of one owner join; across another owner's line a vertical one goes over it.
    fn line(&mut self, x: usize, y: usize, ways: u8, owner: usize) {
        let Some(spot) = self.spot(x, y) else { return };
        let is_vertical = ways & (LEFT | RIGHT) == 0;
        if spot.ways == 0 || spot.owner == owner {
            spot.ways |= ways;
            spot.owner = owner;
        } else if is_vertical && spot.ways & (UP | DOWN) == 0 {
            spot.ways = ways;
            spot.owner = owner;
        }
        spot.style = Style::Line;
    }

    /// A vertical line from `top` to `bottom`, both included; `open` ends go on to the next row.
    pub fn vertical(&mut self, x: usize, top: usize, bottom: usize, owner: usize) {
        for y in top..=bottom {
            self.line(x, y, UP | DOWN, owner);
        }
    }

    /// A track: one horizontal line with the columns that come in from above and go out below.
    pub fn track(&mut self, y: usize, above: &[usize], below: &[usize], owner: usize) {
        let columns = || above.iter().chain(below).copied();
        let (Some(left), Some(right)) = (columns().min(), columns().max()) else { return };
        for x in left..=right {
            let mut ways = 0;
            if x > left {
                ways |= LEFT;
            }
            if x < right {
                ways |= RIGHT;
            }
            if above.contains(&x) {
                ways |= UP;
            }
            if below.contains(&x) {
                ways |= DOWN;
            }
            self.line(x, y, ways, owner);
        }
    }

    /// The lines of text, without spaces at their ends.
    pub fn render(&self, colours: Colours) -> Vec<String> {
        self.lines.iter().map(|line| render(line, colours)).collect()
    }
}

fn render(line: &[Spot], colours: Colours) -> String {
    let is_blank = |spot: &Spot| spot.ways == 0 && spot.letter.is_none_or(|letter| letter == ' ');
    let end = line.iter().rposition(|spot| !is_blank(spot)).map_or(0, |at| at + 1);
    let mut text = String::new();
    let mut style = Style::Plain;
    for spot in line.iter().take(end) {
        let letter = spot.letter.unwrap_or_else(|| joint(spot.ways));
        let wanted = if letter == ' ' { Style::Plain } else { spot.style };
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

const fn joint(ways: u8) -> char {
    const JOINTS: [char; 16] =
        [' ', '│', '│', '│', '─', '┘', '┐', '┤', '─', '└', '┌', '├', '─', '┴', '┬', '┼'];
    match JOINTS.split_at(ways as usize & 15).1 {
        [joint, ..] => *joint,
        [] => ' ',
    }
}

/// A style's text, for lines outside a grid.
pub fn styled(text: &str, style: Style, colours: Colours) -> String {
    match colours {
        Colours::Ansi if style != Style::Plain => format!("{}{text}\u{1b}[0m", style.sequence()),
        Colours::Ansi | Colours::None => text.to_owned(),
    }
}
