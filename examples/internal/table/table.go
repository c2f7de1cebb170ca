// Package table prints tables of text.
package table

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is a header and its rows.
type Table struct {
	Left int // how many columns are flush left, from the first; the others, numbers, are flush right
	Rows [][]string
}

// Add adds a row of cells, each printed with fmt.Sprint. The first row is the
// header.
func (t *Table) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.Rows = append(t.Rows, row)
}

// Print writes the table.
func (t *Table) Print(w io.Writer) {
	var widths []int
	for _, row := range t.Rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for r, row := range t.Rows {
		fmt.Fprintln(w, t.line(row, widths))
		if r == 0 {
			rule := make([]string, len(row))
			for i := range rule {
				rule[i] = strings.Repeat("─", widths[i])
			}
			fmt.Fprintln(w, t.line(rule, widths))
		}
	}
}

func (t *Table) line(row []string, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if i < t.Left {
			b.WriteString(cell + space + "  ")
		} else {
			b.WriteString(space + cell + "  ")
		}
	}
	return strings.TrimRight(b.String(), " ")
}
