//! A Hilbert curve: places of several dimensions in one order.
//!
//! Invariant: a bijection; places next to each other on the curve differ by one in one dimension,
//! so that a piece of it is narrow in all of them.
//! Spec: J. Skilling, "Programming the Hilbert curve", AIP Conference Proceedings 707 (2004).

/// Where the place `at` stands on the curve through a cube of `2^bits` places a side. At most 64
/// bits in all.
pub(super) fn hilbert(at: &[u32], bits: u32) -> u64 {
    let mut x = at.to_vec();
    to_transposed(&mut x, bits);
    let mut index = 0_u64;
    for bit in (0..bits).rev() {
        for axis in &x {
            index = (index << 1) | u64::from((axis >> bit) & 1);
        }
    }
    index
}

/// The bits of the index, still in the order of the axes.
fn to_transposed(x: &mut [u32], bits: u32) {
    let Some(top) = bits.checked_sub(1) else {
        return;
    };
    let mut q = 1_u32 << top;
    while q > 1 {
        let low = q - 1;
        for axis in 0..x.len() {
            undo(x, axis, q, low);
        }
        q >>= 1;
    }
    // Gray code.
    let mut before = None;
    for axis in x.iter_mut() {
        if let Some(before) = before {
            *axis ^= before;
        }
        before = Some(*axis);
    }
    let last = before.unwrap_or(0);
    let mut flips = 0;
    let mut q = 1_u32 << top;
    while q > 1 {
        if last & q != 0 {
            flips ^= q - 1;
        }
        q >>= 1;
    }
    for axis in x {
        *axis ^= flips;
    }
}

/// Takes one turn of the curve back: turns the first axis around, or exchanges it with `axis`.
fn undo(x: &mut [u32], axis: usize, q: u32, low: u32) {
    let (Some(&own), Some(&first)) = (x.get(axis), x.first()) else {
        return;
    };
    if own & q != 0 {
        if let Some(first) = x.first_mut() {
            *first ^= low;
        }
        return;
    }
    let exchanged = (first ^ own) & low;
    if let Some(first) = x.first_mut() {
        *first ^= exchanged;
    }
    if let Some(own) = x.get_mut(axis) {
        *own ^= exchanged;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// All places of a cube.
    fn cube(dimensions: usize, side: u32) -> Vec<Vec<u32>> {
        let mut places = vec![Vec::new()];
        for _ in 0..dimensions {
            let longer = |place: &Vec<u32>, at| [place.as_slice(), &[at]].concat();
            places = places
                .iter()
                .flat_map(|place| (0..side).map(move |at| longer(place, at)))
                .collect();
        }
        places
    }

    #[test]
    fn the_curve_visits_every_place_once_and_steps_to_a_neighbour() {
        for (dimensions, bits) in [(1, 5), (2, 1), (2, 5), (3, 3), (4, 2)] {
            let places = cube(dimensions, 1 << bits);
            let count = places.len();
            let visited: BTreeMap<u64, Vec<u32>> = places
                .into_iter()
                .map(|place| (hilbert(&place, bits), place))
                .collect();
            assert_eq!(visited.len(), count);
            assert_eq!(visited.keys().next_back(), Some(&(count as u64 - 1)));
            let places: Vec<_> = visited.into_values().collect();
            for pair in places.windows(2) {
                let steps = pair[0].iter().zip(&pair[1]);
                let distance: u32 = steps.map(|(a, b)| a.abs_diff(*b)).sum();
                assert_eq!(
                    distance, 1,
                    "{dimensions} dimensions, {bits} bits: {pair:?}"
                );
            }
        }
    }

    #[test]
    fn nothing_to_order_by_is_place_zero() {
        assert_eq!(hilbert(&[], 8), 0);
        assert_eq!(hilbert(&[1, 2], 0), 0);
    }
}
