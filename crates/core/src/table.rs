//! Tables in plain text: the first column is aligned left, the others right, with two spaces between them.

use comfy_table::CellAlignment;

/// A table in plain text.
#[derive(Debug)]
pub struct Table(comfy_table::Table);

impl Table {
    /// A table with these headings and no row yet.
    #[must_use]
    pub fn new(headings: &[&str]) -> Self {
        let mut table = comfy_table::Table::new();
        table
            .load_style(comfy_table::presets::NOTHING)
            .set_header(headings);
        for (number, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if number > 0 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Table(table)
    }

    /// Adds a row, a cell for each heading.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.0.add_row(cells.into_iter().map(Into::into));
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.0.trim_fmt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_aligned_right() {
        let mut table = Table::new(&["policy", "n"]);
        table.row(["mega", "10"]);
        assert_eq!(table.to_string(), "policy   n\nmega    10\n");
        let mut table = Table::new(&["a", "b", "c"]);
        table.row(["", "1 MiB", ""]);
        assert_eq!(table.to_string(), "a      b  c\n   1 MiB\n");
    }
}
