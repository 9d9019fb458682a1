//! Colours and characters. Colours are those that people with every kind of colour vision tell apart (Okabe and Ito,
//! "Color Universal Design", 2008), as the nearest of the 256 that terminals have. No colour says anything that a
//! character does not say too.

use ratatui::style::{Color, Modifier, Style};

const SKY: Color = Color::Indexed(74);
const ORANGE: Color = Color::Indexed(214);
const VERMILLION: Color = Color::Indexed(202);
const GREEN: Color = Color::Indexed(36);

/// How things look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::top) struct Theme {
    /// Without, only bold, faint and reversed text.
    pub(in crate::top) colours: bool,
    /// Whether the terminal has characters beyond ASCII.
    pub(in crate::top) unicode: bool,
}

impl Theme {
    /// As the environment asks: no colours where `NO_COLOR` is set and not empty, ASCII where the locale is not UTF-8.
    pub(in crate::top) fn of_environment() -> Self {
        let value = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(value);
        Theme {
            colours: value("NO_COLOR").is_none(),
            unicode: locale.is_some_and(|locale| {
                let locale = locale.to_ascii_lowercase();
                locale.contains("utf-8") || locale.contains("utf8")
            }),
        }
    }

    fn colour(self, colour: Color) -> Style {
        match self.colours {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    pub(super) fn bold(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(super) fn key(self) -> Style {
        self.colour(SKY).add_modifier(Modifier::BOLD)
    }

    /// All is well.
    pub(super) fn good(self) -> Style {
        self.colour(GREEN)
    }

    /// Something is left to do.
    pub(super) fn due(self) -> Style {
        self.colour(ORANGE)
    }

    /// Something does not work.
    pub(super) fn bad(self) -> Style {
        self.colour(VERMILLION).add_modifier(Modifier::BOLD)
    }

    /// Huge and giant pages.
    pub(super) fn huge(self) -> Style {
        self.colour(SKY)
    }

    /// Memory that is used often.
    pub(super) fn hot(self) -> Style {
        self.colour(ORANGE)
    }

    /// The character for one of the nine levels from nothing to all.
    pub(super) fn level(self, share: f64) -> char {
        const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        const ASCII: [char; 9] = [' ', '.', '.', ':', ':', '+', '+', '#', '#'];
        let levels = if self.unicode { BLOCKS } else { ASCII };
        let share = share.clamp(0.0, 1.0);
        // What is little is still seen: only nothing is blank.
        let index = (share * 8.0).ceil().max(0.0);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to 8; a value that is no number becomes 0"
        )]
        let index = index as usize;
        levels[index.min(8)]
    }

    /// The characters for base pages, base and huge ones, huge ones, giant ones.
    pub(super) fn page_sizes(self) -> [char; 4] {
        match self.unicode {
            true => ['·', '▒', '█', '◆'],
            false => ['.', 'x', 'H', 'G'],
        }
    }

    /// The full and the empty part of a bar.
    pub(super) fn bar(self) -> [char; 2] {
        match self.unicode {
            true => ['█', '░'],
            false => ['#', '.'],
        }
    }

    /// What shows the direction of a sorted column: as it is mostly read, or the other way round.
    pub(super) fn arrow(self, reversed: bool) -> char {
        match (self.unicode, reversed) {
            (true, false) => '▼',
            (true, true) => '▲',
            (false, false) => 'v',
            (false, true) => '^',
        }
    }

    /// What stands for text that was cut off.
    pub(super) fn ellipsis(self) -> char {
        if self.unicode { '…' } else { '~' }
    }

    /// What stands between two parts of a line.
    pub(super) fn dot(self) -> char {
        if self.unicode { '·' } else { '-' }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_rise_and_only_nothing_is_blank() {
        for unicode in [true, false] {
            let theme = Theme {
                colours: true,
                unicode,
            };
            assert_eq!(theme.level(0.0), ' ');
            assert_ne!(theme.level(0.001), ' ');
            assert_eq!(theme.level(1.0), theme.level(7.0));
            assert_eq!(theme.level(f64::NAN), ' ');
        }
    }

    #[test]
    fn without_colours_there_are_none() {
        let theme = Theme {
            colours: false,
            unicode: true,
        };
        for style in [
            theme.good(),
            theme.due(),
            theme.bad(),
            theme.huge(),
            theme.key(),
        ] {
            assert_eq!((style.fg, style.bg), (None, None));
        }
    }
}
