package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

// maxArgs is the number of characters of a call's arguments that a list shows. It counts what it cuts: who decides has to know of it.
const maxArgs = 2000

// printApprovals prints a list from which somebody decides. Characters that hide or turn the order of others are escaped, in JSON too.
func (a *app) printApprovals(found []agent.Approval, more bool) error {
	if more {
		defer a.printNote(moreText)
	}
	if a.output == "json" {
		var text bytes.Buffer
		if err := writeJSON(&text, found, "  "); err != nil {
			return err
		}
		_, err := io.WriteString(a.out, cmdline.Visible(text.String()))
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
	state := "pending"
	if v.Decision != "" {
		state = string(v.Decision)
		if v.By != "" {
			state += " by " + v.By
		}
	}
	row := []string{clipName(cmdline.Visible(v.ApprovalID))}
	for _, text := range []string{state, dash(v.Agent), dash(string(v.SessionID)), v.ToolName, momentOr(v.ExpiresAt, "-")} {
		row = append(row, cell(cmdline.Visible(text)))
	}
	return append(row, argsLine(v.Args))
}

// argsLine returns arguments on one line, cut behind maxArgs characters.
func argsLine(args json.RawMessage) string {
	var v any
	text := string(args)
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.UseNumber()
	if decoder.Decode(&v) == nil {
		var compact bytes.Buffer
		_ = writeJSON(&compact, v, "") // it was JSON
		text = compact.String()
	}
	line := []rune(cmdline.Printable(cmdline.Visible(strings.Join(strings.FieldsFunc(text, endsColumn), " "))))
	if more := len(line) - maxArgs; more > 0 {
		return string(line[:maxArgs]) + fmt.Sprintf("… and %d more characters; --output json has them", more)
	}
	return string(line)
}

// endsColumn reports whether r would end the line or its column. JSON has such characters only between values.
func endsColumn(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }
