//! Which of a process's mappings are meant: by kind, or by name.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use glob::{MatchOptions, Pattern};
use mega_core::Counted;

use super::eligible::{Mapping, whole_regions};

/// `*` does not match `/` and `**` does.
const GLOB: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// One kind of mappings, or a pattern for their names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// Memory of the process alone, the heap included.
    Private,
    /// What the program grows by brk(2).
    Heap,
    /// Memory that several processes may map: System V, POSIX, memfd, shared anonymous.
    Shared,
    /// The largest piece of memory in one row: a guest's RAM, for example.
    Largest,
    /// What a mapping is called in `/proc/PID/maps`.
    Named(Pattern),
}

/// Some of a process's mappings, of the kinds that huge pages can map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    kinds: Vec<Kind>,
}

impl Chosen {
    /// Those that any of these words means: `private`, `heap`, `shared`, `largest`, or a pattern for the name, which begins with `/`,
    /// `anon:` or `anon_shmem:`.
    ///
    /// # Errors
    /// In words, where a word means nothing, and where there is none.
    pub fn parse<'w>(words: impl IntoIterator<Item = &'w str>) -> Result<Self, String> {
        let kinds: Vec<Kind> = words
            .into_iter()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        match kinds.is_empty() {
            true => Err("names no mapping".to_owned()),
            false => Ok(Chosen { kinds }),
        }
    }

    /// The words that it was made of.
    pub fn words(&self) -> impl Iterator<Item = String> {
        self.kinds.iter().map(ToString::to_string)
    }

    /// The addresses of the mappings that are meant, in whole regions. `shmem_device` is the device of the kernel's own tmpfs
    /// ([`crate::kernel::Kernel::shmem_device`]).
    #[must_use]
    pub fn counted(&self, mappings: &[Mapping], shmem_device: Option<(u32, u32)>) -> Counted {
        let is_memory = |mapping: &&Mapping| {
            mapping.accessible
                && (mapping.is_private_anonymous() || mapping.is_shared_memory(shmem_device))
        };
        let memory: Vec<&Mapping> = mappings.iter().filter(is_memory).collect();
        let largest = largest(&memory);
        let is_meant = |mapping: &Mapping| {
            self.kinds.iter().any(|kind| match kind {
                Kind::Private => !mapping.shared,
                Kind::Heap => mapping.name == "[heap]",
                Kind::Shared => mapping.shared,
                Kind::Largest => largest.contains(&mapping.range.start),
                Kind::Named(pattern) => pattern.matches_with(name(mapping), GLOB),
            })
        };
        let meant = memory.into_iter().filter(|mapping| is_meant(mapping));
        let ranges = meant.map(|mapping| whole_regions(&mapping.range));
        Counted::new(ranges.filter(|range| !range.is_empty()).collect())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        const NAMES: [&str; 3] = ["/", "anon:", "anon_shmem:"];
        match word {
            "private" => Ok(Kind::Private),
            "heap" => Ok(Kind::Heap),
            "shared" => Ok(Kind::Shared),
            "largest" => Ok(Kind::Largest),
            name if NAMES.iter().any(|start| name.starts_with(start)) => Pattern::new(name)
                .map(Kind::Named)
                .map_err(|error| format!("'{name}' is not a pattern: {}", error.msg)),
            other => {
                let known = ["private", "heap", "shared", "largest"];
                let meant = match mega_core::nearest(other, known) {
                    Some(near) => format!("; did you mean '{near}'?"),
                    None => String::new(),
                };
                Err(format!(
                    "'{other}' is neither private, heap, shared or largest nor a name in /proc/PID/maps, as /dev/shm/*, /memfd:* or anon:*{meant}"
                ))
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Private => "private",
            Kind::Heap => "heap",
            Kind::Shared => "shared",
            Kind::Largest => "largest",
            Kind::Named(pattern) => pattern.as_str(),
        })
    }
}

/// What a mapping is called, without what the kernel puts around it.
fn name(mapping: &Mapping) -> &str {
    let name = mapping.name.as_str();
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    let inside = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    inside.unwrap_or(name)
}

/// The largest piece of memory. The kernel divides one into several mappings where a part was advised otherwise, so neighbours of one
/// kind count together.
fn largest(memory: &[&Mapping]) -> Range<u64> {
    let mut pieces: Vec<(Range<u64>, bool)> = Vec::new();
    for mapping in memory {
        match pieces.last_mut() {
            Some((last, shared))
                if last.end == mapping.range.start && *shared == mapping.shared =>
            {
                last.end = mapping.range.end;
            }
            _ => pieces.push((mapping.range.clone(), mapping.shared)),
        }
    }
    let pieces = pieces.into_iter().map(|(range, _)| range);
    pieces
        .max_by_key(|range| range.end - range.start)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::eligible::mappings;
    use super::*;
    use mega_core::Region;
    use proptest::prelude::*;

    const MAPS: &str = "\
00600000-00a00000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000800000 rw-p 00000000 00:00 0
7f0000800000-7f0001000000 rw-p 00000000 00:00 0 [anon:ram]
7f1000000000-7f1000400000 rw-s 00000000 00:01 7 /memfd:memory-backend-memfd (deleted)
7f1000400000-7f1000800000 rw-s 00000000 00:01 8 /dev/zero (deleted)
7f2000000000-7f2000400000 rw-s 00000000 00:19 9 /dev/shm/buffers
7f3000000000-7f3100000000 ---p 00000000 00:00 0
7f4000000000-7f4040000000 r--p 00000000 08:01 5 /usr/lib/large
";

    /// The megabytes that a choice means.
    fn counted(words: &[&str]) -> Vec<u64> {
        let chosen = Chosen::parse(words.iter().copied()).expect("it means something");
        let counted = chosen.counted(&mappings(MAPS.as_bytes()), Some((0, 1)));
        let all = mappings(MAPS.as_bytes());
        let regions = all
            .iter()
            .flat_map(|mapping| Region::wholly_inside(mapping.range.start, mapping.range.end));
        let meant = regions.filter(|region| counted.contains(*region));
        meant.map(|region| region.start()).collect()
    }

    #[test]
    fn kinds_and_names_are_told_apart() {
        for (words, regions) in [
            (&["private"][..], 2 + 8),
            (&["heap"], 2),
            (&["shared"], 6),
            // Two mappings beside each other.
            (&["largest"], 8),
            (&["/memfd:*"], 2),
            (&["/dev/zero"], 2),
            (&["/dev/**", "heap"], 6),
            (&["anon:ram"], 4),
            (&["/usr/**"], 0),
            (&["private", "shared"], 16),
        ] {
            assert_eq!(counted(words).len(), regions, "{words:?}");
        }
    }

    #[test]
    fn what_means_nothing_is_refused_with_what_was_meant() {
        let refused = |words: &[&str]| Chosen::parse(words.iter().copied()).unwrap_err();
        assert!(refused(&["shaerd"]).contains("did you mean 'shared'?"));
        assert!(refused(&["/a[b"]).contains("is not a pattern"));
        assert!(refused(&[]).contains("no mapping"));
        let words = ["largest", "/dev/shm/*"];
        let chosen = Chosen::parse(words).expect("right");
        assert_eq!(chosen.words().collect::<Vec<_>>(), words);
    }

    proptest! {
        #[test]
        fn only_what_is_meant_counts(words in prop::collection::vec("(private|heap|shared|largest|/[a-z*/]{0,6})", 1..4), maps in ".{0,200}") {
            if let Ok(chosen) = Chosen::parse(words.iter().map(String::as_str)) {
                let _ = chosen.counted(&mappings(maps.as_bytes()), Some((0, 1)));
            }
        }
    }
}
