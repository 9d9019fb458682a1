//! What fills the memory: text that compresses like people's text, zeros, or random words. A stamp on every huge page
//! reveals a page that holds another's content.

use std::fmt::Write;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::mapping::HUGE_PAGE;
use crate::random::{Random, below};

/// Different huge pages; each lies far from the next one like it.
const VARIANTS: usize = 4;
const WORDS: usize = HUGE_PAGE / 8;

/// Words that reviews are written with, and how many phrases recur in them.
const VOCABULARY: usize = 4_000;
const PHRASES: usize = 600;

/// The kind of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Content {
    /// Reviews as JSON, a line each, after the data set of the paper.
    Text,
    /// Nothing but zeros.
    Zeros,
    /// Words that no algorithm compresses.
    Random,
}

impl Content {
    pub(super) const ALL: [Content; 3] = [Content::Text, Content::Zeros, Content::Random];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Content::Text => "text",
            Content::Zeros => "zeros",
            Content::Random => "random",
        }
    }
}

/// Content made in advance, so that filling memory costs a copy.
pub(super) struct Source {
    content: Content,
    variants: Vec<Vec<u64>>,
    file: File,
}

impl Source {
    /// The same content for the same kind, always.
    pub(super) fn new(content: Content) -> io::Result<Self> {
        let mut random = Random::new(0x687a_6d65_6d00);
        let variants: Vec<Vec<u64>> = (0..VARIANTS).map(|_| make(content, &mut random)).collect();
        let file = tempfile::tempfile()?;
        for (variant, words) in (0u64..).zip(&variants) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            file.write_all_at(&bytes, variant * HUGE_PAGE as u64)?;
        }
        Ok(Source {
            content,
            variants,
            file,
        })
    }

    /// Fills a huge page. The kernel copies, so that memory it cannot have is an error (`EFAULT`), not a signal.
    pub(super) fn fill(&self, page: &mut [u8], number: u64) -> io::Result<()> {
        let variant = variant(number) as u64;
        self.file.read_exact_at(page, variant * HUGE_PAGE as u64)?;
        if self.content != Content::Zeros {
            for at in stamps() {
                page[at * 8..][..8].copy_from_slice(&stamp(number).to_ne_bytes());
            }
        }
        Ok(())
    }

    /// Whether a page holds what [`Source::fill`] put there.
    pub(super) fn is_in(&self, page: &[u64], number: u64) -> bool {
        let expected = &self.variants[variant(number)];
        let mut from = 0;
        for at in stamps() {
            let own = match self.content {
                Content::Zeros => 0,
                Content::Text | Content::Random => stamp(number),
            };
            if page[from..at] != expected[from..at] || page[at] != own {
                return false;
            }
            from = at + 1;
        }
        page[from..] == expected[from..]
    }
}

fn variant(number: u64) -> usize {
    // The remainder is less than the number of variants.
    #[allow(clippy::cast_possible_truncation)]
    let variant = (number % VARIANTS as u64) as usize;
    variant
}

/// The words of a page that say which it is: near its begin, in its middle, near its end.
const fn stamps() -> [usize; 3] {
    [1, WORDS / 2, WORDS - 2]
}

fn stamp(number: u64) -> u64 {
    crate::random::mix(number.wrapping_add(1))
}

fn make(content: Content, random: &mut Random) -> Vec<u64> {
    match content {
        Content::Zeros => vec![0; WORDS],
        Content::Random => (0..WORDS).map(|_| random.word()).collect(),
        Content::Text => {
            let text = reviews(random);
            let (words, _) = text.as_chunks::<8>();
            words.iter().map(|word| u64::from_ne_bytes(*word)).collect()
        }
    }
}

/// Reviews, a huge page of them: identifiers that do not compress, dates and stars that do, and prose in which few
/// words and phrases are common and most are rare (Zipf's law).
fn reviews(random: &mut Random) -> Vec<u8> {
    let vocabulary: Vec<String> = (0..VOCABULARY).map(|_| word(random)).collect();
    let phrases: Vec<String> = (0..PHRASES)
        .map(|_| {
            let words = (0..3 + below(random.word(), 4)).map(|_| zipf(&vocabulary, random));
            words.collect::<Vec<_>>().join(" ")
        })
        .collect();
    let mut text = String::with_capacity(HUGE_PAGE + 4096);
    while text.len() < HUGE_PAGE {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{{\"review_id\":\"{:016x}\",\"business_id\":\"{:016x}\",\"stars\":{}.0,\"useful\":{},\"date\":\"20{:02}-{:02}-{:02}\",\"text\":\"",
            random.word(),
            crate::random::mix(below(random.word(), 500) as u64),
            1 + below(random.word(), 5),
            below(random.word(), 9),
            5 + below(random.word(), 13),
            1 + below(random.word(), 12),
            1 + below(random.word(), 28),
        );
        for _ in 0..1 + below(random.word(), 8) {
            sentence(&mut text, &vocabulary, &phrases, random);
        }
        text.push_str("\"}\n");
    }
    let mut bytes = text.into_bytes();
    bytes.truncate(HUGE_PAGE);
    bytes
}

fn sentence(text: &mut String, vocabulary: &[String], phrases: &[String], random: &mut Random) {
    for _ in 0..2 + below(random.word(), 4) {
        text.push_str(zipf(phrases, random));
        text.push(' ');
        text.push_str(zipf(vocabulary, random));
        text.push(' ');
    }
    text.pop();
    text.push_str(if below(random.word(), 5) == 0 {
        "! "
    } else {
        ". "
    });
}

/// A pronounceable word of one to four syllables.
fn word(random: &mut Random) -> String {
    const ONSETS: [&str; 16] = [
        "b", "c", "d", "f", "g", "l", "m", "n", "p", "r", "s", "t", "th", "st", "v", "w",
    ];
    const RHYMES: [&str; 12] = [
        "a", "e", "i", "o", "an", "er", "ing", "on", "ed", "ly", "ur", "ess",
    ];
    (0..1 + below(random.word(), 4))
        .map(|_| {
            let onset = ONSETS[below(random.word(), ONSETS.len())];
            let rhyme = RHYMES[below(random.word(), RHYMES.len())];
            format!("{onset}{rhyme}")
        })
        .collect()
}

/// One of `items`, the n-th about 1/n times as often as the first.
fn zipf<'a>(items: &'a [String], random: &mut Random) -> &'a str {
    // len^u is distributed so for u even in 0..1.
    #[allow(clippy::cast_precision_loss)]
    let (share, most) = (
        (random.word() >> 11) as f64 / (1u64 << 53) as f64,
        items.len() as f64,
    );
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rank = most.powf(share) as usize;
    &items[rank.saturating_sub(1).min(items.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Area;

    #[test]
    fn what_is_filled_is_recognised_and_nothing_else() {
        for content in Content::ALL {
            let source = Source::new(content).unwrap();
            let mut area = Area::map(HUGE_PAGE).unwrap();
            source.fill(area.bytes_mut(), 5).unwrap();
            assert!(source.is_in(area.words(), 5), "{content:?}");
            let another = source.is_in(area.words(), 5 + VARIANTS as u64);
            assert_eq!(another, content == Content::Zeros, "{content:?}");
            for at in [0, 1, 77, WORDS / 2, WORDS - 1] {
                area.words_mut()[at] ^= 1 << 40;
                assert!(!source.is_in(area.words(), 5), "{content:?}, word {at}");
                area.words_mut()[at] ^= 1 << 40;
            }
        }
    }

    #[test]
    fn the_text_is_text_and_always_the_same() {
        let text = reviews(&mut Random::new(1));
        assert_eq!(text, reviews(&mut Random::new(1)));
        assert!(text.iter().all(u8::is_ascii));
        let lines = text.split(|&byte| byte == b'\n').count();
        assert!((2_000..20_000).contains(&lines), "{lines} reviews");
    }
}
