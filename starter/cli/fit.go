package cli

import (
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/internal/cmdline"
)

const (
	columnGap = 2 // spaces between columns
	minColumn = 8 // width to which a column is shortened at most
)

// fitColumns shortens cells, those of the widest column first, until rows are no wider than width. It does not shorten the first column, which people
// copy into other commands.
func fitColumns(rows [][]string, width int) {
	if len(rows) == 0 || width <= 0 {
		return
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	total := columnGap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for total > width {
		widest := 0
		for i := 1; i < len(widths); i++ {
			if widths[i] > minColumn && (widest == 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest == 0 {
			break
		}
		widths[widest]--
		total--
	}
	for _, row := range rows {
		for i := 1; i < len(row); i++ {
			if utf8.RuneCountInString(row[i]) > widths[i] {
				row[i] = cmdline.OneLine(row[i], widths[i]-1) // which adds "…"
			}
		}
	}
}
