package definitions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// Bounds of a mail's own text.
const (
	tableRows    = 50
	tableColumns = 12
	tableCell    = 60       // characters
	maxReport    = 32 << 10 // characters
	maxSubject   = 200
)

// table writes rows as plain text, the first [tableRows] of them. Columns are in the order of the alphabet.
func table(rows []any) string {
	shown := rows[:min(len(rows), tableRows)]
	columns, left := columnsOf(shown)
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(columns) > 0 {
		fmt.Fprintln(w, strings.Join(columns, "\t"))
	}
	for _, row := range shown {
		members, ok := row.(map[string]any)
		if !ok {
			fmt.Fprintln(w, cell(row))
			continue
		}
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = cell(members[c])
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // to memory
	if left > 0 {
		fmt.Fprintf(&b, "… and %d more columns\n", left)
	}
	if more := len(rows) - len(shown); more > 0 {
		fmt.Fprintf(&b, "… and %d more rows\n", more)
	}
	if len(rows) == 0 {
		b.WriteString("No rows.\n")
	}
	return b.String()
}

func columnsOf(rows []any) (columns []string, left int) {
	for _, row := range rows {
		members, _ := row.(map[string]any)
		for name := range members {
			if at, found := slices.BinarySearch(columns, name); !found {
				columns = slices.Insert(columns, at, name)
			}
		}
	}
	if len(columns) > tableColumns {
		return columns[:tableColumns], len(columns) - tableColumns
	}
	return columns, 0
}

// cell is a value on one line.
func cell(v any) string {
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
	if s = strings.Join(strings.Fields(s), " "); s == "" {
		return "-"
	}
	return clip(s, tableCell)
}

// clip cuts a text to so many characters.
func clip(s string, most int) string {
	n := 0
	for i := range s {
		if n == most {
			return s[:i] + "…"
		}
		n++
	}
	return s
}
