package llmtest

import "strings"

// Row says what became of one kind of block.
type Row struct{ Name, Outcome string }

// Takes tells what an implementation makes of every kind of block in a request: [Passes], [Noted], [Left], or fails.
func Takes(h Harness) []Row {
	var rows []Row
	for _, t := range takings() {
		outcome := ""
		failure := attempt(h, testCase{t.name, func(c *C) { outcome = c.take(t) }}).String()
		if failure != "" {
			outcome = "fails"
		}
		rows = append(rows, Row{t.name, outcome})
	}
	return rows
}

// Says tells what an implementation makes of every kind of block in a reply: block, lost, fails (the whole reply with it), or – where
// the protocol has no form for it.
func Says(h Harness) []Row {
	var rows []Row
	for _, s := range sayings() {
		rows = append(rows, Row{s.name, said(h, s)})
	}
	return rows
}

func said(h Harness, s saying) string {
	if !sayable(h.Dialect, s) {
		return Left
	}
	failed := false
	failure := attempt(h, testCase{s.name, func(c *C) {
		o := generate(c.model(c.replies(s.reply())), withTools())
		failed = o.err != nil
		s.check(c, o.reply.Blocks, o.blocks)
	}}).String()
	switch {
	case failed:
		return "fails"
	case failure != "":
		return "lost"
	default:
		return "block"
	}
}

// Markdown renders columns of rows as a table; every column has the same rows.
func Markdown(head string, names []string, columns [][]Row) string {
	var b strings.Builder
	b.WriteString("| " + head + " | " + strings.Join(names, " | ") + " |\n|---|" + strings.Repeat("---|", len(names)) + "\n")
	for i := range columns[0] {
		b.WriteString("| " + columns[0][i].Name + " |")
		for _, column := range columns {
			b.WriteString(" " + column[i].Outcome + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}
