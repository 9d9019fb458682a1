//! `matrix`: multiplies square matrices that stay in the cache, block by block, so huge pages gain nothing. An
//! operation is one multiplication of two matrices.

use std::time::Instant;

use super::access::{map, ready, touch};
use super::arguments::Common;
use super::report::{Done, Reporter};
use super::slices::{self, Work, until};
use super::stop::Stop;
use crate::error::Error;
use crate::random::{Random, mix};

/// Bytes at most: three matrices of 128 x 128, within the second-level cache of any x86-64 server
/// CPU since 2017 (1 MiB in Skylake, 512 KiB in Zen 2).
const SIZE: usize = 384 << 10;
/// Rows and columns of a block: three of 32 x 32 words are 24 KiB, within the first-level cache.
const BLOCK: usize = 32;

pub(super) fn run(
    common: &Common,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let bytes = common.size_or(SIZE).min(SIZE);
    let mut area = map(bytes)?;
    let rows = rows(bytes);
    let used = 3 * rows * rows;
    touch(&mut area, 1, common.seed);
    ready("matrices", &area, common, reporter)?;
    let mut product = Product::new(&mut area.words_mut()[..used], rows, common.seed);
    let done = slices::run(&mut product, 1, reporter, stop)?;
    Ok(done.checked(product.wrong, 0))
}

/// Rows of the largest square matrices, in whole blocks, of which three fit; at least one block.
fn rows(bytes: usize) -> usize {
    ((bytes / 8 / 3).isqrt() / BLOCK * BLOCK).max(BLOCK)
}

/// Two matrices and their product, modulo 2^64.
struct Product<'a> {
    rows: usize,
    left: &'a mut [u64],
    right: &'a mut [u64],
    product: &'a mut [u64],
    random: Random,
    /// Multiplications that came to something else.
    wrong: u64,
}

impl<'a> Product<'a> {
    fn new(words: &'a mut [u64], rows: usize, seed: u64) -> Self {
        let mut random = Random::new(mix(seed));
        words.fill_with(|| random.word());
        let (left, rest) = words.split_at_mut(rows * rows);
        let (right, product) = rest.split_at_mut(rows * rows);
        Product {
            rows,
            left,
            right,
            product,
            random,
            wrong: 0,
        }
    }

    fn multiply(&mut self) {
        self.product.fill(0);
        let starts = || (0..self.rows).step_by(BLOCK);
        for row in starts() {
            for column in starts() {
                for inner in starts() {
                    multiply_block(
                        self.rows,
                        (row, inner, column),
                        (&*self.left, &*self.right, &mut *self.product),
                    );
                }
            }
        }
    }

    /// Whether the product is right: it is multiplied by a random vector, and so are the two matrices one after the other
    /// (Freivalds 1977).
    fn is_right(&mut self) -> bool {
        let vector: Vec<u64> = (0..self.rows).map(|_| self.random.word()).collect();
        let through_both = self.times(self.left, &self.times(self.right, &vector));
        self.times(self.product, &vector) == through_both
    }

    fn times(&self, matrix: &[u64], vector: &[u64]) -> Vec<u64> {
        matrix
            .chunks(self.rows)
            .map(|row| {
                row.iter().zip(vector).fold(0, |sum: u64, (value, other)| {
                    sum.wrapping_add(value.wrapping_mul(*other))
                })
            })
            .collect()
    }
}

/// Adds the product of a block of `left` and one of `right` to one of `product`.
fn multiply_block(
    rows: usize,
    (row, inner, column): (usize, usize, usize),
    (left, right, product): (&[u64], &[u64], &mut [u64]),
) {
    for row in row..row + BLOCK {
        let sums = &mut product[row * rows + column..][..BLOCK];
        for inner in inner..inner + BLOCK {
            let factor = left[row * rows + inner];
            let others = &right[inner * rows + column..][..BLOCK];
            for (sum, other) in sums.iter_mut().zip(others) {
                *sum = sum.wrapping_add(factor.wrapping_mul(*other));
            }
        }
    }
}

impl Work for Product<'_> {
    /// In one thread, however many there are to be.
    fn work(&mut self, _threads: usize, end: Instant) -> u64 {
        until(end, || {
            // Another matrix each time, so that no multiplication can be left out.
            self.left[0] = self.random.word();
            self.multiply();
            self.wrong += u64::from(!self.is_right());
            1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn products_are_right_and_a_wrong_one_is_found() {
        let rows = rows(SIZE);
        assert_eq!(rows, 128);
        let mut words = vec![0; 3 * rows * rows];
        let mut product = Product::new(&mut words, rows, 1);
        assert!(product.work(1, Instant::now() + Duration::from_millis(5)) > 0);
        assert_eq!(product.wrong, 0);
        let direct = (0..rows).fold(0_u64, |sum, inner| {
            let factors =
                product.left[5 * rows + inner].wrapping_mul(product.right[inner * rows + 77]);
            sum.wrapping_add(factors)
        });
        assert_eq!(product.product[5 * rows + 77], direct);
        product.product[5 * rows + 77] ^= 1;
        assert!(!product.is_right());
    }

    #[test]
    fn small_memory_has_one_block_of_each() {
        assert_eq!(rows(1), BLOCK);
    }
}
