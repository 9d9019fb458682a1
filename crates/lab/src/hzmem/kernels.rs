//! Small computations of different kinds, in place of SPEC CPU2006. They work in the memory that they are given.

use crate::random::{Random, below};

/// A computation in memory; returns a number that depends on all it did.
pub(super) struct Kernel {
    pub(super) name: &'static str,
    /// Words of memory it takes; `n` scales it.
    pub(super) words: fn(usize) -> usize,
    pub(super) run: fn(&mut [u64], usize) -> u64,
}

pub(super) const KERNELS: [Kernel; 6] = [
    Kernel {
        name: "matrix product",
        words: |n| 3 * matrix_order(n).pow(2),
        run: matrix_product,
    },
    Kernel {
        name: "sort",
        words: |n| n,
        run: sort,
    },
    Kernel {
        name: "pointer chase",
        words: |n| n,
        run: pointer_chase,
    },
    Kernel {
        name: "hash table",
        words: |n| 2 * n.next_power_of_two(),
        run: hash_table,
    },
    Kernel {
        name: "stencil",
        words: |n| 2 * n,
        run: stencil,
    },
    Kernel {
        name: "histogram",
        words: |n| n + 65_536,
        run: histogram,
    },
];

/// The order of the matrices that take about as long as `n` steps of the others.
fn matrix_order(n: usize) -> usize {
    (n / 16).isqrt().next_multiple_of(8)
}

fn matrix_product(words: &mut [u64], n: usize) -> u64 {
    let order = matrix_order(n);
    let (a, rest) = words.split_at_mut(order * order);
    let (b, c) = rest.split_at_mut(order * order);
    for (index, (a, b)) in a.iter_mut().zip(b.iter_mut()).enumerate() {
        *a = index as u64 % 17;
        *b = index as u64 % 13;
    }
    for (row, c) in a.chunks(order).zip(c.chunks_mut(order)) {
        c.fill(0);
        for (&a, b) in row.iter().zip(b.chunks(order)) {
            for (c, &b) in c.iter_mut().zip(b) {
                *c = c.wrapping_add(a.wrapping_mul(b));
            }
        }
    }
    sum(&c[..order * order])
}

fn sort(words: &mut [u64], n: usize) -> u64 {
    let mut random = Random::new(1);
    let words = &mut words[..n];
    words.fill_with(|| random.word());
    words.sort_unstable();
    words[n / 2]
}

/// One cycle through all words in random order (Sattolo), followed step by step.
fn pointer_chase(words: &mut [u64], n: usize) -> u64 {
    let mut random = Random::new(2);
    let words = &mut words[..n];
    for (index, word) in words.iter_mut().enumerate() {
        *word = index as u64;
    }
    for index in (1..n).rev() {
        words.swap(index, below(random.word(), index));
    }
    let mut at = 0;
    for _ in 0..n {
        at = usize::try_from(words[at]).unwrap_or(0);
    }
    at as u64 + words[n - 1]
}

/// Open addressing, half full: keys beside counts.
fn hash_table(words: &mut [u64], n: usize) -> u64 {
    let slots = n.next_power_of_two();
    let table = &mut words[..2 * slots];
    table.fill(0);
    let mut random = Random::new(3);
    for _ in 0..n {
        let key = 1 + below(random.word(), slots / 2) as u64;
        let mut slot = below(crate::random::mix(key), slots);
        while table[2 * slot] != 0 && table[2 * slot] != key {
            slot = (slot + 1) % slots;
        }
        table[2 * slot] = key;
        table[2 * slot + 1] += 1;
    }
    table
        .as_chunks::<2>()
        .0
        .iter()
        .fold(0, |sum, [key, count]| {
            sum.wrapping_add(key.wrapping_mul(*count))
        })
}

fn stencil(words: &mut [u64], n: usize) -> u64 {
    let (from, to) = words.split_at_mut(n);
    for (index, word) in from.iter_mut().enumerate() {
        *word = index as u64 & 0xff;
    }
    let to = &mut to[..n];
    to.copy_from_slice(from);
    for _ in 0..2 {
        for (to, near) in to[1..].iter_mut().zip(from.windows(3)) {
            *to = (near[0] + 2 * near[1] + near[2]) / 4;
        }
        from.copy_from_slice(to);
    }
    sum(from)
}

/// How often each 16-bit value occurs.
fn histogram(words: &mut [u64], n: usize) -> u64 {
    let (data, counts) = words.split_at_mut(n);
    let counts = &mut counts[..65_536];
    let mut random = Random::new(4);
    data.fill_with(|| random.word());
    counts.fill(0);
    for word in data.iter() {
        for value in word.to_ne_bytes().as_chunks::<2>().0 {
            counts[usize::from(u16::from_ne_bytes(*value))] += 1;
        }
    }
    counts.iter().max().copied().unwrap_or(0)
}

fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stays_in_its_memory_and_gives_the_same_whatever_was_there() {
        for kernel in &KERNELS {
            let n = 10_000;
            let words = (kernel.words)(n);
            let mut zeros = vec![0; words];
            let mut ones = vec![u64::MAX; words];
            let first = (kernel.run)(&mut zeros, n);
            assert_eq!(first, (kernel.run)(&mut ones, n), "{}", kernel.name);
        }
    }

    #[test]
    fn they_compute_what_they_say() {
        let mut words = vec![0; 100_000];
        assert_eq!(hash_table(&mut words, 1000), sum_of_keys(1000));
        sort(&mut words, 1000);
        assert!(words[..1000].is_sorted());
        // All words are in one cycle: as many steps as words lead back to the first.
        let end = pointer_chase(&mut words, 1000);
        assert_eq!(end, words[999]);
    }

    /// The keys that the hash table counts, added up.
    fn sum_of_keys(n: usize) -> u64 {
        let mut random = Random::new(3);
        (0..n)
            .map(|_| 1 + below(random.word(), n.next_power_of_two() / 2) as u64)
            .sum()
    }
}
