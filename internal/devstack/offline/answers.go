package offline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// What an answer shows of a table.
const (
	shownRows    = 10
	shownColumns = 5
	shownMore    = 9  // with those that the prompt is about
	shownCell    = 40 // runes
	shownText    = 500
)

// introduction is the answer to everything that was not understood.
func introduction(flights bool) string {
	example := `"fetch flights from NYC to LAX, sort by price, show top 3"`
	if !flights {
		example = `"fetch https://api.example.com/flights, sort by price, top 3"`
	}
	return "I am Turnstone's offline model: a small intent parser without general knowledge, so I did not understand that.\n\n" +
		"I can fetch rows from an API, filter, sort, cut and select them, group, join and transform them, and take text and dates apart. For example:\n\n" +
		"- " + example + "\n" +
		"- \"fetch https://api.example.com/items, where price < 20 and name contains foo, only name and price\"\n" +
		"- \"now the average price by name, highest first\", about the rows that I found before\n\n" +
		"For anything else configure a real model: set OPENAI_API_KEY or ANTHROPIC_API_KEY, or a provider, model and base URL " +
		"(Ollama and other OpenAI-compatible servers work) in turnstone.yaml.\n"
}

// numbered says n words.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString("word")
		b.WriteString(strconv.Itoa(i + 1))
	}
	return b.String()
}

// toolAnswer reads the results of tool calls, in order, and what the prompt's unknown words were; in is nil where there is no pipeline.
func toolAnswer(results []string, in *intent) string {
	var b strings.Builder
	for i, r := range results {
		if len(results) > 1 {
			fmt.Fprintf(&b, "**Result %d.** ", i+1)
		}
		writeResult(&b, r, in)
	}
	if in != nil && len(in.ignored) > 0 {
		fmt.Fprintf(&b, "\nI did not understand these words and passed over them: %s.\n", strings.Join(in.ignored, ", "))
	}
	return b.String()
}

// failed is a failure as tools report it.
type failed struct {
	Type      string `json:"type"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
	Step      string `json:"step"`
	Field     string `json:"field"`
}

// dataset is a tool result that holds rows, or a preview of rows that are stored elsewhere.
type dataset struct {
	Rows     []json.RawMessage `json:"rows"`
	Sample   []json.RawMessage `json:"sample"`
	RowCount *int              `json:"row_count"`
	Ref      string            `json:"ref"`
	Preview  *dataset          `json:"preview"`
	Error    json.RawMessage   `json:"error"`
}

func writeResult(b *strings.Builder, content string, in *intent) {
	if f, ok := readFailure(content); ok {
		writeFailure(b, f)
		return
	}
	var d dataset
	if json.Unmarshal([]byte(content), &d) != nil {
		d = dataset{}
	}
	if d.Preview != nil {
		d.Sample, d.RowCount = d.Preview.Sample, d.Preview.RowCount
	}
	rows := d.Rows
	if rows == nil {
		rows = d.Sample
	}
	if rows == nil {
		fmt.Fprintf(b, "The tool answered:\n\n```\n%s\n```\n", clipRunes(strings.TrimSpace(content), shownText))
		return
	}
	n := len(rows)
	if d.RowCount != nil {
		n = *d.RowCount
	}
	ref := d.Ref
	if ref == "" {
		ref = storedRef.FindString(content)
	}
	writeRows(b, rows, n, in)
	if ref != "" && n > min(len(rows), shownRows) {
		fmt.Fprintf(b, "\nAll rows are stored as %s.\n", ref)
	}
}

// readFailure finds {"error":{…}}, {"error":"…"} and a bare {"type","message"}; text that begins with "error" is one as well.
func readFailure(content string) (failed, bool) {
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Failure json.RawMessage `json:"failure"`
		failed
	}
	body := strings.TrimPrefix(content, "Error: ") // how providers without a flag for it mark a failed call
	if json.Unmarshal([]byte(body), &outer) != nil {
		text := strings.TrimSpace(content)
		return failed{Message: clipRunes(text, shownText)}, len(text) >= 5 && strings.EqualFold(text[:5], "error")
	}
	for _, raw := range []json.RawMessage{outer.Error, outer.Failure} {
		var f failed
		var text string
		switch {
		case len(raw) == 0 || string(raw) == "null":
		case json.Unmarshal(raw, &f) == nil && f.Message != "":
			return f, true
		case json.Unmarshal(raw, &text) == nil:
			return failed{Message: text}, true
		}
	}
	return outer.failed, outer.Type != "" && outer.Message != ""
}

func writeFailure(b *strings.Builder, f failed) {
	fmt.Fprintf(b, "That did not work: %s", clipRunes(strings.TrimSuffix(f.Message, "."), shownText))
	if f.Field != "" && !strings.Contains(f.Message, f.Field) {
		fmt.Fprintf(b, " (%s)", f.Field)
	}
	b.WriteString(".")
	if f.Retryable {
		b.WriteString(" Trying again later may help.")
	}
	b.WriteString("\n")
}

func writeRows(b *strings.Builder, rows []json.RawMessage, n int, in *intent) {
	shown := rows[:min(len(rows), shownRows)]
	switch {
	case n == 0:
		b.WriteString("Found no rows.\n")
		return
	case n == 1:
		b.WriteString("Found 1 row:\n\n")
	case n > len(shown):
		fmt.Fprintf(b, "Found %d rows; the first %d:\n\n", n, len(shown))
	default:
		fmt.Fprintf(b, "Found %d rows:\n\n", n)
	}
	if len(shown) == 0 {
		return
	}
	columns := memberNames(shown[0])
	if columns == nil {
		for _, r := range shown {
			fmt.Fprintf(b, "- %s\n", cell(r))
		}
		return
	}
	table := in.shown(columns)
	for _, c := range table {
		b.WriteString("| " + clipRunes(escapeCell(c), shownCell) + " ")
	}
	b.WriteString("|\n" + strings.Repeat("|---", len(table)) + "|\n")
	for _, r := range shown {
		var fields map[string]json.RawMessage
		_ = json.Unmarshal(r, &fields) // a row of another kind is an empty line
		for _, c := range table {
			b.WriteString("| " + cell(fields[c]) + " ")
		}
		b.WriteString("|\n")
	}
}

// shown are the columns of a table: the first ones, and some of those that the prompt is about.
func (in *intent) shown(columns []string) []string {
	table := slices.Clone(columns[:min(len(columns), shownColumns)])
	if in == nil {
		return table
	}
	for _, word := range in.uses(columns) {
		if c := columnOf(word, columns); len(table) < shownMore && slices.Contains(columns, c) && !slices.Contains(table, c) {
			table = append(table, c)
		}
	}
	return table
}

// uses are the fields that a prompt is about; a join is about those at the end of its rows.
func (in *intent) uses(columns []string) []string {
	const joinedColumns = 2
	var out []string
	for i := range in.stages {
		s := &in.stages[i]
		for _, k := range s.sort {
			out = append(out, k.field)
		}
		for j := range s.tests {
			s.tests[j].each(func(c *clause) { out = append(out, c.Field) })
		}
		switch {
		case s.extract != nil:
			out = append(out, groupNames(s.extract.pattern, s.extract.field)...)
		case s.date != nil:
			out = append(out, s.date.field)
		case s.join != nil:
			out = append(out, columns[max(len(columns)-joinedColumns, 0):]...)
		}
		for _, c := range s.fields {
			out = append(out, c.field, c.as)
		}
	}
	return out
}

// memberNames lists an object's names in order; nil when it is none or has none.
func memberNames(raw json.RawMessage) []string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var names []string
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		var v json.RawMessage
		if err != nil || !ok || dec.Decode(&v) != nil {
			return nil
		}
		names = append(names, name)
	}
	return names
}

func cell(raw json.RawMessage) string {
	var s string
	switch {
	case len(raw) == 0:
		return ""
	case json.Unmarshal(raw, &s) != nil:
		s = string(raw)
	}
	return clipRunes(escapeCell(s), shownCell)
}

func escapeCell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}

func clipRunes(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
