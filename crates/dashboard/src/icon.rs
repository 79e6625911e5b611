//! The icon as a picture of points, for devices that do not draw vectors. It is drawn when it is asked for.

use std::sync::LazyLock;

/// The colours of the ground, the wheel and its hub.
const GROUND: [u8; 3] = [0x1f, 0x4e, 0x5f];
const WHEEL: [u8; 3] = [0xf4, 0xf1, 0xe8];
const HUB: [u8; 3] = [0xe8, 0xa3, 0x3d];
/// The steps between the ground and each of the others.
const STEPS: u8 = 8;
/// Each point is looked at in so many places, in both directions.
const SAMPLES: u32 = 4;
/// The largest block of zlib that is not compressed.
const BLOCK: usize = 0xffff;

/// The icon in the sizes that devices ask for: the path of each, and its bytes.
pub static PNGS: [(&str, LazyLock<Vec<u8>>); 2] = [
    ("/assets/icon-192.png", LazyLock::new(|| png(192))),
    ("/assets/icon-512.png", LazyLock::new(|| png(512))),
];

/// Draws the icon as a PNG of `size` by `size` points.
fn png(size: u32) -> Vec<u8> {
    let mut rows = Vec::new();
    for y in 0..size {
        // No filter.
        rows.push(0);
        let mut half = None;
        for x in 0..size {
            let colour = colour(x, y, size);
            match half.take() {
                None => half = Some(colour << 4),
                Some(first) => rows.push(first | colour),
            }
        }
        rows.extend(half);
    }
    let mut head = [size.to_be_bytes(), size.to_be_bytes()].concat();
    // Four bits for each point, which name one of the colours.
    head.extend([4, 3, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut file, *b"IHDR", &head);
    chunk(&mut file, *b"PLTE", &colours());
    chunk(&mut file, *b"IDAT", &zlib(&rows));
    chunk(&mut file, *b"IEND", &[]);
    file
}

/// All colours: from the ground to the wheel, then from the ground to the hub.
fn colours() -> Vec<u8> {
    let between = |from: u8, to: u8, step: u8| {
        let (from, to, step) = (i32::from(from), i32::from(to), i32::from(step));
        let value = from + (to - from) * step / i32::from(STEPS - 1);
        u8::try_from(value).unwrap_or(u8::MAX)
    };
    let mut colours = Vec::new();
    for other in [WHEEL, HUB] {
        for step in 0..STEPS {
            colours.extend(GROUND.iter().zip(other).map(|(from, to)| between(*from, to, step)));
        }
    }
    colours
}

/// The colour of a point.
fn colour(x: u32, y: u32, size: u32) -> u8 {
    let (mut wheel, mut hub) = (0_u32, 0_u32);
    let place = |point: u32, sample: u32| {
        (f64::from(point) + (f64::from(sample) + 0.5) / f64::from(SAMPLES)) * 64.0 / f64::from(size)
            - 32.0
    };
    for (i, j) in (0..SAMPLES).flat_map(|i| (0..SAMPLES).map(move |j| (i, j))) {
        let (x, y) = (place(x, i), place(y, j));
        let from_middle = x.hypot(y);
        if from_middle <= 4.0 {
            hub += 1;
        } else if is_wheel(x, y, from_middle) {
            wheel += 1;
        }
    }
    let step = |count: u32| {
        let step = count * u32::from(STEPS - 1) / (SAMPLES * SAMPLES);
        u8::try_from(step).unwrap_or_default()
    };
    if hub > 0 { STEPS + step(hub) } else { step(wheel) }
}

/// Whether a place is on the rim or on one of the four spokes, which have round ends.
fn is_wheel(x: f64, y: f64, from_middle: f64) -> bool {
    let (along, beside) = if x.abs() > y.abs() { (x.abs(), y) } else { (y.abs(), x) };
    let to_spoke = (along - along.clamp(9.0, 24.0)).hypot(beside);
    (from_middle - 15.0).abs() <= 2.5 || to_spoke <= 2.5
}

/// Bytes in the form of zlib, not compressed.
fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let mut blocks = bytes.chunks(BLOCK).peekable();
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        out.push(u8::from(blocks.peek().is_none()));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(block);
    }
    let (low, high) = bytes.iter().fold((1_u32, 0_u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    out.extend(((high << 16) | low).to_be_bytes());
    out
}

/// Adds a part of a PNG, with its checksum.
fn chunk(file: &mut Vec<u8>, kind: [u8; 4], content: &[u8]) {
    file.extend(u32::try_from(content.len()).unwrap_or(u32::MAX).to_be_bytes());
    let body = [&kind[..], content].concat();
    let sum = body.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 }
        })
    });
    file.extend(body);
    file.extend((!sum).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_icon_is_a_picture_with_right_checksums() {
        let file = png(192);
        assert!(file.starts_with(b"\x89PNG\r\n\x1a\n"));
        // The checksum of an empty end is known.
        assert!(file.ends_with(&[0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82]));
        let (ground, hub, wheel) = (colour(0, 0, 192), colour(96, 96, 192), colour(96, 30, 192));
        assert_eq!((ground, hub, wheel), (0, 2 * STEPS - 1, STEPS - 1));
        // The sum of zlib's own example.
        assert!(zlib(b"Wikipedia").ends_with(&[0x11, 0xe6, 0x03, 0x98]));
    }

    #[test]
    fn long_rows_are_several_blocks() {
        let bytes = vec![7; BLOCK + 1];
        let packed = zlib(&bytes);
        assert_eq!(packed.len(), 2 + 5 + BLOCK + 5 + 1 + 4);
    }
}
