package agent

import (
	"slices"
	"strings"
)

// ApprovalPolicy is what a turn does when a tool call needs a person's approval: wait, refuse, or a comma-separated list of tools that run without
// approval while every other call is refused. The channel sets it; a caller cannot.
type ApprovalPolicy string

// The policies that are not a list. The empty policy waits.
const (
	ApprovalsWait   ApprovalPolicy = "wait"   // until a person decides
	ApprovalsRefuse ApprovalPolicy = "refuse" // the turn ends with [StopApprovalRequired]
)

// maxAllowedTools bounds the list of a policy.
const maxAllowedTools = 128

// Waits reports whether a turn waits for a person.
func (p ApprovalPolicy) Waits() bool { return p == "" || p == ApprovalsWait }

// Tools returns the list. A name that ends in * stands for all names with that prefix.
func (p ApprovalPolicy) Tools() []string {
	if p.Waits() || p == ApprovalsRefuse {
		return nil
	}
	var names []string
	for name := range strings.SplitSeq(string(p), ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Allows reports whether a tool is on the list.
func (p ApprovalPolicy) Allows(tool string) bool {
	return slices.ContainsFunc(p.Tools(), func(name string) bool {
		prefix, many := strings.CutSuffix(name, "*")
		return tool == name || many && strings.HasPrefix(tool, prefix)
	})
}

// Validate checks the policy; the error names the field.
func (p ApprovalPolicy) Validate(field string) error {
	names := p.Tools()
	switch {
	case p.Waits(), p == ApprovalsRefuse:
		return nil
	case len(names) == 0:
		return Invalid(field, "want wait, refuse, or names of tools with commas between them, got %.60q", string(p))
	case len(names) > maxAllowedTools:
		return FieldErrorf(CodeOverflow, field, "are %d tools, at most %d", len(names), maxAllowedTools)
	}
	for _, name := range names {
		prefix, _ := strings.CutSuffix(name, "*")
		switch {
		case name == string(ApprovalsWait), name == string(ApprovalsRefuse):
			return Invalid(field, "%q stands alone: a list of tools refuses every other tool", name)
		case !ValidName(prefix):
			return Invalid(field, "want names of tools, or how names begin and one * behind it, got %.60q", name)
		}
	}
	return nil
}

// DecideCommand returns the command that approves the call. The id is quoted for a shell, because a model may have chosen part of it.
func (a *Approval) DecideCommand() string {
	id := a.ApprovalID
	if strings.HasPrefix(id, "-") || strings.ContainsFunc(id, outsideWord) {
		id = "'" + strings.ReplaceAll(id, "'", `'\''`) + "'"
	}
	return "starter approvals decide " + id + " approve --by NAME"
}

// outsideWord reports whether a shell may read more than a letter in r.
func outsideWord(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
}

// OnUnavailable says what happens to a tool call that needs an approval while the store of approvals cannot be reached.
type OnUnavailable string

// The three answers; the empty one waits.
const (
	UnavailableWait   OnUnavailable = "wait"   // until the store answers
	UnavailableRefuse OnUnavailable = "refuse" // the model is told
	UnavailableRun    OnUnavailable = "run"    // unless a policy asks for the approval of this tool
)
