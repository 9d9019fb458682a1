//! Text in columns.

/// On which side of its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Pads every column to its widest cell, and gives one line for each row. Columns beyond the last side given stand
/// as that one does.
pub(crate) fn align(rows: &[Vec<String>], sides: &[Side]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let side = |column: usize| sides.get(column).or(sides.last());
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let padded = cells.map(|(column, (cell, width))| match side(column) {
            Some(Side::Right) => format!("{cell:>width$}"),
            Some(Side::Left) | None => format!("{cell:<width$}"),
        });
        let line = padded.collect::<Vec<_>>().join("  ");
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> [Vec<String>; 2] {
        [
            vec!["a".into(), "bcd".into(), "x".into()],
            vec!["ef".into(), "g".into()],
        ]
    }

    #[test]
    fn columns_line_up() {
        let lines = align(&rows(), &[Side::Left, Side::Right]);
        assert_eq!(lines, ["a   bcd  x", "ef    g"]);
        let lines = align(&rows(), &[Side::Right, Side::Left]);
        assert_eq!(lines, [" a  bcd  x", "ef  g"]);
    }

    #[test]
    fn nothing_is_no_line() {
        assert!(align(&[], &[Side::Left]).is_empty());
    }
}
