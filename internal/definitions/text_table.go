package definitions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// Bounds of the default body of a mail.
const (
	tableRows    = 50
	tableColumns = 12
	tableCell    = 60       // characters
	maxReport    = 32 << 10 // characters
	maxSubject   = 200
)

// rowsTable returns the first [tableRows] rows as a plain-text table with columns in alphabetical order.
func rowsTable(rows []any) string {
	shown := rows[:min(len(rows), tableRows)]
	columns, omittedColumns := columnsOf(shown)
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(columns) > 0 {
		fmt.Fprintln(w, strings.Join(columns, "\t"))
	}
	for _, row := range shown {
		members, ok := row.(map[string]any)
		if !ok {
			fmt.Fprintln(w, cellText(row))
			continue
		}
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = cellText(members[c])
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // to memory
	if omittedColumns > 0 {
		fmt.Fprintf(&b, "… and %d more columns\n", omittedColumns)
	}
	if omittedRows := len(rows) - len(shown); omittedRows > 0 {
		fmt.Fprintf(&b, "… and %d more rows\n", omittedRows)
	}
	if len(rows) == 0 {
		b.WriteString("No rows.\n")
	}
	return b.String()
}

// columnsOf returns the first [tableColumns] member names of the rows, sorted, and the number of the others.
func columnsOf(rows []any) (columns []string, omitted int) {
	for _, row := range rows {
		members, _ := row.(map[string]any)
		for name := range members {
			if i, found := slices.BinarySearch(columns, name); !found {
				columns = slices.Insert(columns, i, name)
			}
		}
	}
	if len(columns) > tableColumns {
		return columns[:tableColumns], len(columns) - tableColumns
	}
	return columns, 0
}

// cellText returns a value as one line of text.
func cellText(v any) string {
	var s string
	switch v := v.(type) {
	case nil:
		return "-"
	case string:
		s = v
	default:
		raw, err := json.Marshal(v)
		if err != nil {
			return "?"
		}
		s = string(raw)
	}
	s = strings.Join(strings.Fields(s), " ")
	if s == "" {
		return "-"
	}
	return clip.Runes(s, tableCell)
}
