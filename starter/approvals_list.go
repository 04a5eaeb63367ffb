package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/termtext"
)

// mostArgs is how many characters of a call's arguments a list shows. What is cut off is counted: who decides has to know that there is more.
const mostArgs = 2000

// printApprovals prints a list from which somebody decides: nothing in it hides or turns what stands beside it, as JSON neither, which is the
// same JSON for a program that reads it.
func (a *app) printApprovals(found []agent.Approval, more bool) error {
	if more {
		defer a.note("… there are more; see --limit")
	}
	if a.output == "json" {
		var text bytes.Buffer
		plain := *a
		plain.out = &text
		if err := plain.printJSON(found); err != nil {
			return err
		}
		_, err := io.WriteString(a.out, termtext.Visible(text.String()))
		return err
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.ReplaceAll("APPROVAL STATE AGENT SESSION TOOL EXPIRES ARGUMENTS", " ", "\t"))
	for i := range found {
		fmt.Fprintln(w, strings.Join(approvalRow(&found[i]), "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func approvalRow(v *agent.Approval) []string {
	state, expires := "pending", "-"
	if v.Decision != "" {
		state = string(v.Decision)
		if v.By != "" {
			state += " by " + v.By
		}
	}
	if v.ExpiresAt != nil {
		expires = moment(*v.ExpiresAt)
	}
	row := []string{wide(termtext.Visible(v.ApprovalID))}
	for _, text := range []string{state, dash(v.Agent), dash(string(v.SessionID)), v.ToolName, expires} {
		row = append(row, cell(termtext.Visible(text)))
	}
	return append(row, decidable(v.Args))
}

// decidable are arguments on one line, in full as far as mostArgs allows.
func decidable(args json.RawMessage) string {
	var v any
	text := string(args)
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.UseNumber()
	if decoder.Decode(&v) == nil {
		var plain bytes.Buffer
		encoder := json.NewEncoder(&plain)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(v) // it was JSON
		text = plain.String()
	}
	line := []rune(termtext.Printable(termtext.Visible(strings.Join(strings.FieldsFunc(text, breaks), " "))))
	if more := len(line) - mostArgs; more > 0 {
		return string(line[:mostArgs]) + fmt.Sprintf("… and %d more characters; --output json has them", more)
	}
	return string(line)
}

// breaks reports what would end the line, or its column: in JSON only between values.
func breaks(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }
