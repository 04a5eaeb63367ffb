package agent

import (
	"slices"
	"strings"
)

// ApprovalPolicy says what a turn does when a tool call needs approval: wait, refuse, or a comma-separated list of tools that run without approval
// while calls of other tools are refused. The channel sets it, not the caller.
type ApprovalPolicy string

// The policies that are not a list. An empty policy means [ApprovalsWait].
const (
	ApprovalsWait   ApprovalPolicy = "wait"   // until a person decides
	ApprovalsRefuse ApprovalPolicy = "refuse" // the turn ends with [StopApprovalRequired]
)

// maxAllowedTools is the maximum length of the list.
const maxAllowedTools = 128

// Waits reports whether a turn waits for approvals.
func (p ApprovalPolicy) Waits() bool { return p == "" || p == ApprovalsWait }

// Tools returns the listed tools. A name that ends in * stands for all names with that prefix.
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
		prefix, isPattern := strings.CutSuffix(name, "*")
		return tool == name || (isPattern && strings.HasPrefix(tool, prefix))
	})
}

// Validate checks the policy. field is the field of its error.
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
			return Invalid(field, "want tool names, or prefixes that end in *, got %.60q", name)
		}
	}
	return nil
}

// DecideCommand returns the shell command that approves the call. It quotes the ID, because a model may have chosen part of it.
func (a *Approval) DecideCommand() string {
	id := a.ApprovalID
	if strings.HasPrefix(id, "-") || strings.ContainsFunc(id, needsQuoting) {
		id = "'" + strings.ReplaceAll(id, "'", `'\''`) + "'"
	}
	return "starter approvals decide " + id + " approve --by NAME"
}

// needsQuoting reports whether a character may have a special meaning in a shell.
func needsQuoting(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
}

// OnUnavailable says what happens to a tool call that needs approval while the store of approvals is unavailable.
type OnUnavailable string

// The values of OnUnavailable. Empty means [UnavailableWait].
const (
	UnavailableWait   OnUnavailable = "wait"   // until the store is available
	UnavailableRefuse OnUnavailable = "refuse" // the call fails, and the model sees why
	UnavailableRun    OnUnavailable = "run"    // unless a policy requires approval of the tool
)
