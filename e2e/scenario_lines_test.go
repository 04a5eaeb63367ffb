package e2e_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

// eventLine is an event in a few words.
func eventLine(e *agent.Event) string {
	switch e.Type {
	case agent.EventStatus:
		if strings.HasPrefix(e.Reason, "runs as a workflow") { // a direct turn that never was: its events are those of a durable one
			return "status " + string(e.Status)
		}
		return strings.TrimSpace("status " + string(e.Status) + " " + e.Reason)
	case agent.EventToolStart, agent.EventToolProgress:
		return string(e.Type) + " " + e.ToolName
	case agent.EventToolEnd:
		if e.Failed {
			return "tool_end " + e.ToolName + " failed"
		}
		return "tool_end " + e.ToolName
	case agent.EventContent:
		return "content " + blockKinds(e.ContentBlocks)
	case agent.EventApprovalRequested:
		return "approval_requested " + e.ToolName
	case agent.EventApprovalResolved:
		return "approval_resolved " + e.ToolName + " " + string(e.Approval.Decision) + " by " + e.Approval.By
	case agent.EventReset:
		return "reset " + e.Producer
	case agent.EventError:
		return "error " + e.Error.Type
	case agent.EventToken, agent.EventRoute, agent.EventUsage:
		return string(e.Type)
	default:
		return "unknown " + string(e.Type)
	}
}

func blockKinds(blocks []agent.Block) string {
	var out []string
	for i := range blocks {
		kind := string(blocks[i].Type)
		if len(blocks[i].Annotations) > 0 {
			kind = "citation"
		}
		out = append(out, kind)
	}
	return strings.Join(slices.Compact(out), ",")
}

// compact is a stream in lines: fragments in a row are one, and what parallel tools say is in the order of the alphabet.
func compact(events []agent.Event) []string {
	var out []string
	for i := range events {
		l := eventLine(&events[i])
		if strings.Contains(l, "goes on as a workflow") { // only direct turns say so
			continue
		}
		out = append(out, l)
	}
	return slices.CompactFunc(ordered(out), func(a, b string) bool {
		return a == b && (a == "token" || strings.HasPrefix(a, "content ") || strings.HasPrefix(a, "tool_progress "))
	})
}

// isRepeatedWhenSlow reports whether the events of a producer may come again on a slow machine: a durable turn runs tool calls without effects, requests
// for approvals and decisions as local activities first, and once more when that takes too long.
func isRepeatedWhenSlow(producer string) bool {
	return slices.ContainsFunc([]string{"tool/", "approval/", "client_tool/", "decision/"}, func(kind string) bool { return strings.HasPrefix(producer, kind) })
}

// lasting returns the events without those of producers that began again because the machine was slow.
func lasting(events []agent.Event) []agent.Event {
	out := make([]agent.Event, 0, len(events))
	for i := range events {
		e := &events[i]
		if e.Type != agent.EventReset || !isRepeatedWhenSlow(e.Producer) {
			out = append(out, *e)
			continue
		}
		out = slices.DeleteFunc(out, func(o agent.Event) bool { return o.Meta.Producer == e.Producer && o.Meta.EventIndex >= e.FromIndex })
	}
	return out
}

// written is a message in one line.
func written(m *client.Message) string {
	var parts []string
	for i := range m.Blocks {
		parts = append(parts, blockLine(&m.Blocks[i]))
	}
	return string(m.Role) + ": " + strings.Join(parts, " + ")
}

func blockLine(b *agent.Block) string {
	switch b.Type {
	case agent.BlockText:
		return b.Text
	case agent.BlockReasoning:
		return "(" + b.Reasoning + ")"
	case agent.BlockToolCall:
		return b.Name + tight(b.Args)
	case agent.BlockToolResult:
		if b.Status == agent.ResultError {
			return b.Name + " failed " + failureIn(b.Output)
		}
		return b.Name + " = " + tight(b.Output)
	case agent.BlockImage, agent.BlockAudio, agent.BlockFile, agent.BlockInvalidToolCall, agent.BlockServerToolCall, agent.BlockServerToolResult,
		agent.BlockNonStandard:
		return "[" + string(b.Type) + "]"
	default:
		return "[unknown " + string(b.Type) + "]"
	}
}

// failureIn is the message of a failed result.
func failureIn(output json.RawMessage) string {
	var out struct {
		Error agent.Failure `json:"error"`
	}
	if json.Unmarshal(output, &out) != nil || out.Error.Message == "" {
		return tight(output)
	}
	return out.Error.Message
}

// tight is JSON without needless space.
func tight(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return string(raw)
	}
	return out.String()
}

// sameLine reports whether a line is as expected; … at the end of the expected one stands for whatever follows.
func sameLine(want, got string) bool {
	if begin, ok := strings.CutSuffix(want, "…"); ok {
		return strings.HasPrefix(got, begin)
	}
	return want == got
}

// flat is a JSON document with all strings in it once more as they read, also those of documents within strings.
func flat(body string) string {
	var out strings.Builder
	out.WriteString(body)
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			out.WriteString("\n" + v)
			var within any
			if strings.HasPrefix(v, "{") && json.Unmarshal([]byte(v), &within) == nil {
				walk(within)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	var tree any
	if json.Unmarshal([]byte(body), &tree) == nil {
		walk(tree)
	}
	return out.String()
}
