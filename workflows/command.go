package workflows

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// command is what a person types to send an update with Temporal's CLI.
type command struct {
	workflowID, update string
	input              []field // of a JSON object, in this order
}

type field struct{ name, value string }

// approval returns the command that approves a call.
func approval(workflowID, approvalID string) command {
	return command{workflowID, UpdateDecide, []field{{"approval_id", approvalID}, {"decision", "approve"}, {"by", "you"}}}
}

// result returns the command that provides the result of a client-side call.
func result(workflowID string, call agent.CallID) command {
	return command{workflowID, UpdateProvide, []field{{"tool_call_id", string(call)}, {"result", "…"}}}
}

// line returns the command on one line, for readers of JSON.
func (c command) line() string { return c.broken(" ", "") }

// lines returns the command on several lines, because the Web UI cuts long lines. A shell accepts it: a line break within the quoted JSON is
// white space.
func (c command) lines() string { return c.broken(" \\\n  ", "\n    ") }

// broken returns the command with one separator before flags and another around the first value, which is the longest.
func (c command) broken(flags, value string) string {
	fields := make([]string, len(c.input))
	for i, f := range c.input {
		around := ""
		if i == 0 {
			around = value
		}
		fields[i] = jsonString(f.name) + ":" + around + jsonString(f.value) + "," + around
	}
	input := "{" + strings.TrimSuffix(strings.Join(fields, ""), ",") + "}"
	return "temporal workflow update execute" + flags + "--workflow-id " + shellWord(c.workflowID) + " --name " + c.update +
		flags + "--input " + shellWord(input)
}

// shellWord quotes a word for a shell if it needs quotes.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') || strings.ContainsRune("/._-:", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// jsonString returns a JSON string; %q would write \a and \x1b. Unprintable characters are escaped, because parts of ids come from models.
func jsonString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"', r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case !strconv.IsPrint(r) && r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
