package offline

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

const (
	patchTool       = "patch_workflow"
	defaultWorkflow = "main"
	defaultNode     = "fetch_flights"
)

var (
	lasting = regexp.MustCompile(`(?is)^\s*(?:please\s+|now\s+|also\s+|always\s+)*` +
		`(?:add|create|set\s+up|send|notify|alert|email|always|whenever|schedule|every\s+time|each\s+time)\b`)
	trigger = regexp.MustCompile(`(?i)\b(?:when(?:ever)?|every\s+time|each\s+time|always|as\s+soon\s+as|if)\b\s+(?:the\s+|a\s+|an\s+)?([a-z_][\w.]{0,99})` +
		`(?:\s+(?:is|are|goes|go|gets|get|drops|drop|falls|fall|rises|rise|climbs|climb|stays))*\s+` +
		`(below|under|less\s+than|cheaper\s+than|above|over|more\s+than|higher\s+than|at\s+most|at\s+least|exceeds|<=|>=|<|>)\s*` +
		`(?:[$€£]\s*)?(-?\d[\d,]*(?:\.\d+)?)`)
	bareTrigger = regexp.MustCompile(`(?i)\b(?:whenever|every\s+time|each\s+time)\b`)
	scheduled   = regexp.MustCompile(`(?i)^\s*(?:please\s+)?schedule\b|` +
		`\b(?:every|each)\s+(?:day|hour|week|morning|evening|month|monday|minute)\b|\b(?:daily|hourly|weekly)\b`)
	notification = regexp.MustCompile(`(?i)\b(e-?mail|slack|sms|text\s+message|webhook)\b`)
	recipient    = regexp.MustCompile(`(?i)\bto\s+([\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+)`)
	behind       = regexp.MustCompile(`(?i)\bafter\s+(?:the\s+)?(?:node\s+|step\s+)?([a-z][\w-]*_[\w-]*)\b`)
	workflowTag  = regexp.MustCompile(`(?i)\b(?:in|of|to)\s+(?:the\s+)?workflow\s+([a-z0-9][\w.-]{0,99})\b`)
)

// The arguments of patch_workflow.
type (
	patchArgs struct {
		WorkflowTag string    `json:"workflow_tag"`
		PatchSpec   patchSpec `json:"patch_spec"`
	}
	patchSpec struct {
		Operations  []operation `json:"operations"`
		Description string      `json:"description"`
	}
	operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	workflowNode struct {
		ID     string            `json:"id"`
		Type   string            `json:"type"`
		Expr   string            `json:"expr,omitempty"`
		Config map[string]string `json:"config,omitempty"`
	}
	workflowEdge struct {
		From      string `json:"from"`
		To        string `json:"to"`
		Condition string `json:"condition,omitempty"`
	}
)

// lasts reports whether a prompt asks for something that stays when the turn is over: a change of the workflow.
func lasts(prompt string) bool {
	return lasting.MatchString(prompt) && (trigger.MatchString(prompt) || bareTrigger.MatchString(prompt) || scheduled.MatchString(prompt) ||
		notification.MatchString(prompt) && behind.MatchString(prompt))
}

// patch makes the call that changes the workflow; ok is false for what is no condition with a notification, or a notification behind a node.
func patch(prompt string, m *memory) (json.RawMessage, bool) {
	channel, id := "email", "send_email"
	if found := notification.FindStringSubmatch(prompt); found != nil {
		channel = strings.ReplaceAll(strings.ToLower(found[1]), "-", "")
		if strings.HasPrefix(channel, "text") {
			channel = "sms"
		}
		id = "send_" + channel
	}
	from := defaultNode
	if n := len(m.nodes); n > 0 && m.nodes[n-1].node != "" {
		from = m.nodes[n-1].node
	}
	if found := behind.FindStringSubmatch(prompt); found != nil {
		from = found[1]
	}
	config := map[string]string{"action": channel}
	if found := recipient.FindStringSubmatch(prompt); found != nil {
		config["to"] = found[1]
	}
	args := patchArgs{WorkflowTag: defaultWorkflow}
	if found := workflowTag.FindStringSubmatch(prompt); found != nil {
		args.WorkflowTag = found[1]
	}
	add := func(path string, v any) {
		args.PatchSpec.Operations = append(args.PatchSpec.Operations, operation{"add", path, v})
	}
	found := trigger.FindStringSubmatch(prompt)
	if found == nil && !behind.MatchString(prompt) {
		return nil, false
	}
	if found == nil {
		config["subject"] = "Done: " + from
		add("/nodes/-", workflowNode{ID: id, Type: "task", Config: config})
		add("/edges/-", workflowEdge{From: from, To: id})
		args.PatchSpec.Description = fmt.Sprintf("Add %s notification after %s", channel, from)
	} else {
		field, op := strings.ToLower(found[1]), sign(found[2])
		change := "drop"
		if op[0] == '>' {
			change = "rise"
		}
		check := strings.ReplaceAll(field, ".", "_") + "_check"
		config["subject"] = strings.ToUpper(field[:1]) + field[1:] + " " + change + "!"
		add("/nodes/-", workflowNode{ID: check, Type: "condition", Expr: field + " " + op + " " + plainNumber(found[3])})
		add("/nodes/-", workflowNode{ID: id, Type: "task", Config: config})
		add("/edges/-", workflowEdge{From: from, To: check})
		add("/edges/-", workflowEdge{From: check, To: id, Condition: "true"})
		args.PatchSpec.Description = fmt.Sprintf("Add %s %s %s notification", field, change, channel)
	}
	raw, err := encode(args)
	return raw, err == nil
}

func sign(words string) string {
	switch words = strings.Join(strings.Fields(strings.ToLower(words)), " "); words {
	case "below", "under", "less than", "cheaper than":
		return "<"
	case "at most":
		return "<="
	case "at least":
		return ">="
	case "<", "<=", ">", ">=":
		return words
	default:
		return ">"
	}
}

// patchAnswer says what was changed.
func patchAnswer(result string) string {
	var r struct {
		PatchID string `json:"patch_id"`
		Version any    `json:"version"`
	}
	_, failure := readFailure(result)
	if failure || json.Unmarshal([]byte(result), &r) != nil || r.PatchID == "" {
		return toolAnswer([]string{result}, nil)
	}
	text := "The workflow is changed: patch " + r.PatchID
	switch r.Version.(type) {
	case float64, string:
		text += fmt.Sprintf(", version %v", r.Version)
	}
	return text + ".\n"
}

// noPatch is the answer where a change of the workflow is asked for and cannot be made.
func noPatch(offered bool) string {
	if !offered {
		return "That would change the workflow for good, and this agent has no tool for it (" + patchTool + "). I can only work on rows, now.\n"
	}
	return "I can add a notification for a condition, or behind a node of the workflow: \"add email notification whenever price drops below $500\". " +
		"I did not understand this as one of them.\n"
}
