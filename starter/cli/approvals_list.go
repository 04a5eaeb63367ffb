package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

// maxArgs is the number of characters of a call's arguments that a list shows.
const maxArgs = 2000

// printApprovals prints approvals for a person who decides about them. It escapes invisible characters and those that change the direction of text,
// also in JSON.
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
	lines := [][]string{{"APPROVAL", "STATE", "AGENT", "SESSION", "TOOL", "EXPIRES", "ARGUMENTS"}}
	for i := range found {
		lines = append(lines, approvalRow(&found[i]))
	}
	return a.printColumns(lines)
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
	for _, text := range []string{state, orDash(v.Agent), orDash(string(v.SessionID)), v.ToolName, formatTimeOr(v.ExpiresAt, "-")} {
		row = append(row, clipCell(cmdline.Visible(text)))
	}
	return append(row, argsLine(v.Args))
}

// argsLine returns arguments on one line. It cuts them after maxArgs characters and says how many are left out.
func argsLine(args json.RawMessage) string {
	text, _ := cmdline.FormatJSON(args, "")
	line := []rune(cmdline.Printable(cmdline.Visible(strings.Join(strings.FieldsFunc(text, isTableSeparator), " "))))
	if more := len(line) - maxArgs; more > 0 {
		return string(line[:maxArgs]) + fmt.Sprintf("… and %d more characters; --output json has them", more)
	}
	return string(line)
}

// isTableSeparator reports whether r ends a line or a column of a table. JSON has these characters only between values.
func isTableSeparator(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }
