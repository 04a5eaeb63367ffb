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

// approval is the command that approves a call.
func approval(workflowID, approvalID string) command {
	return command{workflowID, UpdateDecide, []field{{"approval_id", approvalID}, {"decision", "approve"}, {"by", "you"}}}
}

// result is the command that provides the result of a call which runs at the caller.
func result(workflowID string, call agent.CallID) command {
	return command{workflowID, UpdateProvide, []field{{"tool_call_id", string(call)}, {"result", "…"}}}
}

// line is the command on one line, for one who reads it in JSON.
func (c command) line() string { return c.broken(" ", "") }

// lines are the same command so broken that the Web UI, which cuts long lines, shows it whole. A shell takes it as it is: a break within
// the quoted JSON is white space to JSON.
func (c command) lines() string { return c.broken(" \\\n  ", "\n    ") }

// broken puts one break before flags, and another around the first value, which is the long one.
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

// shellWord quotes what a shell would not take as it is.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') || strings.ContainsRune("/._-:", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// jsonString is a JSON string. %q is not: it writes \a and \x1b. Parts of ids come from models, so what cannot be seen is written out.
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
