package offline

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The tools that a prompt asks for by its first words.
const (
	delegateTool = "delegate_to_agent"
	todosTool    = "write_todos"
)

// The bounds of a list of tasks, which are the tool's.
const (
	maxTodos = 100
	maxTodo  = 2_000 // runes
)

var (
	askOther   = regexp.MustCompile(`(?is)^\s*(?:please\s+)?ask\s+(?:the\s+)?(?:agent\s+)?([a-z0-9][a-z0-9._-]*?)(?:\s*:|\s+to\s)\s*(\S.*)$`)
	delegateTo = regexp.MustCompile(`(?is)^\s*(?:please\s+)?delegate\s+(?:this\s+)?to\s+(?:the\s+)?(?:agent\s+)?` +
		`([a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)\s*[:,]?\s+(\S.*)$`)
	planOf   = regexp.MustCompile(`(?is)^\s*(?:please\s+)?plan\s*:\s*(\S.*)$`)
	todoMark = regexp.MustCompile(`^\s*(?:(?:[-*+]|\d{1,3}[.)])\s+)?(?:(?i:and|then)\s+)*`)
)

// delegation are the arguments of delegate_to_agent.
type delegation struct {
	AgentType string            `json:"agent_type"`
	Inputs    map[string]string `json:"inputs"`
	Config    map[string]string `json:"config"`
}

// planned is one task of the arguments of write_todos.
type planned struct {
	Content string `json:"content"`
	Status  string `json:"status"`
}

// errand is the call that a prompt asks for by its first words, when its tool is offered.
func errand(req *request, prompt string) (toolCall, bool) {
	prompt = clipBytes(prompt, maxPrompt)
	var name string
	var args any
	if d, ok := readDelegation(prompt); ok && req.offers(delegateTool) {
		name, args = delegateTool, d
	} else if todos := readPlan(prompt); len(todos) > 0 && req.offers(todosTool) {
		name, args = todosTool, map[string][]planned{"todos": todos}
	} else {
		return toolCall{}, false
	}
	raw, err := encode(args)
	return toolCall{ID: callID(req, 0), Type: "function", Function: function{Name: name, Arguments: string(raw)}}, err == nil
}

// readDelegation reads "ask NAME: …", "ask NAME to …" and "delegate to NAME …".
func readDelegation(prompt string) (delegation, bool) {
	found := askOther.FindStringSubmatch(prompt)
	if found == nil {
		found = delegateTo.FindStringSubmatch(prompt)
	}
	if found == nil {
		return delegation{}, false
	}
	message := strings.TrimSpace(found[2])
	return delegation{
		AgentType: "langchain_agent", Inputs: map[string]string{"message": message}, Config: map[string]string{"agent": found[1]},
	}, message != ""
}

// readPlan reads "plan: a, b, c"; tasks stand between commas, semicolons or lines. The first is being worked on.
func readPlan(prompt string) []planned {
	found := planOf.FindStringSubmatch(prompt)
	if found == nil {
		return nil
	}
	separator := ",;\n"
	if strings.Contains(found[1], "\n") { // a list of lines may have commas within
		separator = ";\n"
	}
	var out []planned
	for part := range strings.FieldsFuncSeq(found[1], func(r rune) bool { return strings.ContainsRune(separator, r) }) {
		part = strings.Trim(todoMark.ReplaceAllString(part, ""), " \t\r.")
		if part == "" || len(out) == maxTodos {
			continue
		}
		status := "pending"
		if len(out) == 0 {
			status = "in_progress"
		}
		out = append(out, planned{Content: clipRunes(part, maxTodo), Status: status})
	}
	return out
}

// errandAnswer answers with what other agents said and what was planned; ok is false when the conversation ends with results of other tools.
func errandAnswer(messages []message) (text string, ok bool) {
	results := trailingResults(messages)
	first := len(messages) - len(results)
	if first < 1 {
		return "", false
	}
	var parts []string
	for i, result := range results {
		id := messages[first+i].ToolCallID
		at := slices.IndexFunc(messages[first-1].ToolCalls, func(c toolCall) bool { return c.ID == id })
		if at < 0 {
			return "", false
		}
		switch messages[first-1].ToolCalls[at].Function.Name {
		case delegateTool:
			parts = append(parts, delegateAnswer(result))
		case todosTool:
			parts = append(parts, planAnswer(result))
		case patchTool:
			parts = append(parts, patchAnswer(result))
		default:
			return "", false
		}
	}
	return strings.Join(parts, "\n"), true
}

// delegateAnswer is what another agent said, word for word.
func delegateAnswer(result string) string {
	var r struct {
		Output *string `json:"output"`
	}
	_, failure := readFailure(result)
	if failure || json.Unmarshal([]byte(result), &r) != nil || r.Output == nil {
		return toolAnswer([]string{result}, nil)
	}
	if strings.TrimSpace(*r.Output) == "" {
		return "The other agent answered nothing.\n"
	}
	return strings.TrimRight(*r.Output, "\n") + "\n"
}

// planAnswer shows a list of tasks.
func planAnswer(result string) string {
	var r struct {
		Todos []planned `json:"todos"`
	}
	_, failure := readFailure(result)
	if failure || json.Unmarshal([]byte(result), &r) != nil || len(r.Todos) == 0 {
		return toolAnswer([]string{result}, nil)
	}
	var b strings.Builder
	b.WriteString("The plan:\n\n")
	for i, t := range r.Todos[:min(len(r.Todos), maxTodos)] {
		fmt.Fprintf(&b, "%d. %s (%s)\n", i+1, t.Content, strings.ReplaceAll(t.Status, "_", " "))
	}
	return b.String()
}
