//! STREAM's four operations on long vectors (McCalpin).

use std::time::Instant;

/// The operations, in STREAM's order.
pub(super) const OPERATIONS: [&str; 4] = ["copy", "scale", "add", "triad"];

const SCALAR: f64 = 3.0;

/// Vectors of 8-byte floating point numbers, kept as the words that memory consists of.
pub(super) struct Vectors<'m> {
    a: &'m mut [u64],
    b: &'m mut [u64],
    c: &'m mut [u64],
}

impl<'m> Vectors<'m> {
    /// Three vectors of `length` in `words`, which are all written.
    pub(super) fn new(words: &'m mut [u64], length: usize) -> Self {
        let (a, rest) = words.split_at_mut(length);
        let (b, rest) = rest.split_at_mut(length);
        let (c, _) = rest.split_at_mut(length);
        a.fill(1.0f64.to_bits());
        b.fill(2.0f64.to_bits());
        c.fill(0.0f64.to_bits());
        Vectors { a, b, c }
    }

    /// One operation; bytes moved per second, in STREAM's counting.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn run(&mut self, operation: usize) -> f64 {
        let (a, b, c) = (&mut *self.a, &mut *self.b, &mut *self.c);
        let start = Instant::now();
        let vectors = match operation {
            0 => {
                c.copy_from_slice(a);
                2
            }
            1 => {
                for (b, c) in b.iter_mut().zip(&*c) {
                    *b = (SCALAR * f64::from_bits(*c)).to_bits();
                }
                2
            }
            2 => {
                for ((c, a), b) in c.iter_mut().zip(&*a).zip(&*b) {
                    *c = (f64::from_bits(*a) + f64::from_bits(*b)).to_bits();
                }
                3
            }
            _ => {
                for ((a, b), c) in a.iter_mut().zip(&*b).zip(&*c) {
                    *a = (f64::from_bits(*b) + SCALAR * f64::from_bits(*c)).to_bits();
                }
                3
            }
        };
        let seconds = start.elapsed().as_secs_f64();
        (vectors * 8 * a.len()) as f64 / seconds
    }

    /// Whether all elements are what `rounds` rounds of all operations make of them.
    pub(super) fn is_right(&self, rounds: usize) -> bool {
        let (mut a, mut b, mut c) = (1.0, 2.0, 0.0);
        for _ in 0..rounds {
            c = a;
            b = SCALAR * c;
            c = a + b;
            a = b + SCALAR * c;
        }
        let all = |words: &[u64], value: f64| words.iter().all(|&word| word == value.to_bits());
        all(self.a, a) && all(self.b, b) && all(self.c, c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operations_are_those_of_stream() {
        let mut words = vec![0; 300];
        let mut vectors = Vectors::new(&mut words, 100);
        for _ in 0..3 {
            for operation in 0..OPERATIONS.len() {
                assert!(vectors.run(operation) > 0.0);
            }
        }
        assert!(vectors.is_right(3));
        assert!(!vectors.is_right(2));
        vectors.b[50] ^= 1;
        assert!(!vectors.is_right(3), "a wrong element is noticed");
    }
}
