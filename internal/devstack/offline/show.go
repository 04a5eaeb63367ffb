package offline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// Limits of the part of a tool's result that an answer shows.
const (
	maxRows         = 10
	maxColumns      = 5   // without columns that the message names
	maxNamedColumns = 9   // with columns that the message names
	maxCell         = 40  // runes
	maxText         = 500 // runes
)

// result has the fields of all tool results that the model shows: a failure, rows or a preview of rows, the output of another agent, or a patch.
type result struct {
	Error    failure           `json:"error"`
	Rows     []json.RawMessage `json:"rows"`
	RowCount int               `json:"row_count"`
	Ref      string            `json:"ref"`
	Preview  struct {
		Sample   []json.RawMessage `json:"sample"`
		RowCount int               `json:"row_count"`
	} `json:"preview"`
	Output  string `json:"output"`
	PatchID string `json:"patch_id"`
	Version int    `json:"version"`
}

type failure struct {
	Message string `json:"message"`
	Field   string `json:"field"`
}

// showResults returns the results of the tools in Markdown.
func (m *model) showResults(c *chat) string {
	var b strings.Builder
	for i, content := range c.results {
		if len(c.results) > 1 {
			fmt.Fprintf(&b, "**Result %d.** ", i+1)
		}
		b.WriteString(showResult(content, c.message))
	}
	if m.needsRoute(c.message) {
		b.WriteString("\nNo route was given, so these are flights from NYC to LAX.\n")
	}
	return b.String()
}

func showResult(content, message string) string {
	var r result
	_ = json.Unmarshal([]byte(strings.TrimPrefix(content, "Error: ")), &r) // after an error all fields are empty, and content is shown
	if r.Rows == nil {
		r.Rows, r.RowCount = r.Preview.Sample, r.Preview.RowCount
	}
	switch {
	case r.Error.Message != "":
		text := "That did not work: " + clip.Runes(strings.TrimSuffix(r.Error.Message, "."), maxText)
		if !strings.Contains(r.Error.Message, r.Error.Field) {
			text += " (" + r.Error.Field + ")"
		}
		return text + ".\n"
	case r.Rows != nil:
		return r.table(message)
	case r.Output != "":
		return strings.TrimRight(r.Output, "\n") + "\n"
	case r.PatchID != "":
		return "The workflow is changed: patch " + r.PatchID + strings.TrimSuffix(fmt.Sprintf(", version %d", r.Version), ", version 0") + ".\n"
	}
	return "The tool answered:\n\n```\n" + clip.Runes(strings.TrimSpace(content), maxText) + "\n```\n"
}

// table returns the first rows as a Markdown table.
func (r *result) table(message string) string {
	n, rows := max(r.RowCount, len(r.Rows)), r.Rows[:min(len(r.Rows), maxRows)]
	if len(rows) == 0 {
		return "Found no rows.\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Found %d row%s", n, strings.Repeat("s", min(n-1, 1)))
	if n > len(rows) {
		fmt.Fprintf(&b, "; the first %d", len(rows))
	}
	columns := tableColumns(rows[0], message)
	b.WriteString(":\n\n| " + strings.Join(columns, " | ") + " |\n" + strings.Repeat("|---", len(columns)) + "|\n")
	for _, row := range rows {
		var fields map[string]json.RawMessage
		_ = json.Unmarshal(row, &fields) // a row that is not an object has empty cells
		for _, c := range columns {
			b.WriteString("| " + cell(fields[c]) + " ")
		}
		b.WriteString("|\n")
	}
	if r.Ref != "" && n > len(rows) {
		b.WriteString("\nAll rows are stored as " + r.Ref + ".\n")
	}
	return b.String()
}

// tableColumns returns the names of the first fields of a row, and of those that the message names.
func tableColumns(row json.RawMessage, message string) []string {
	words := wordPattern.FindAllString(message, -1)
	dec := json.NewDecoder(strings.NewReader(string(row)))
	_, _ = dec.Token() // the opening brace
	var columns []string
	for i := 0; dec.More(); i++ {
		t, err := dec.Token()
		name, ok := t.(string)
		var value json.RawMessage
		if err != nil || !ok || dec.Decode(&value) != nil {
			break
		}
		if i < maxColumns || len(columns) < maxNamedColumns && slices.Contains(words, name) {
			columns = append(columns, name)
		}
	}
	return columns
}

func cell(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		s = string(raw)
	}
	return clip.Runes(strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`), maxCell)
}
