package chat

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// request is the body of POST /api/chat.
type request struct {
	Message        string                  `json:"message"`
	SessionID      agent.SessionID         `json:"session_id"` // empty: a session of its own, which the answer names
	AgentName      string                  `json:"agent_name"` // empty: routing decides
	Agent          string                  `json:"agent"`      // the same
	UserID         string                  `json:"user_id"`    // counts where the credential is nobody's own
	ChatHistory    *[]entry                `json:"chat_history"`
	Model          string                  `json:"model"`
	OnBusy         agent.OnBusy            `json:"on_busy"`
	IdempotencyKey string                  `json:"idempotency_key"`
	Context        agent.InvocationContext `json:"context"`
}

// entry is a message of the past: text in content, or blocks.
type entry struct {
	Role    agent.Role    `json:"role"`
	Content string        `json:"content"`
	Blocks  []agent.Block `json:"blocks"`
}

// turn is the turn that is asked for. The history of the session is loaded where chat_history is null or absent; a list is the history,
// and an empty one none.
func (q *request) turn(named bool) (agent.TurnRequest, error) {
	t := agent.TurnRequest{
		SessionID: q.SessionID, Agent: cmp.Or(q.AgentName, q.Agent), Model: q.Model, OnBusy: q.OnBusy, IdempotencyKey: q.IdempotencyKey,
		Context: q.Context,
	}
	switch {
	case q.AgentName != "" && q.Agent != "" && q.AgentName != q.Agent:
		return t, agent.Invalid("agent", "differs from agent_name")
	case q.UserID != "" && q.Context.UserID != "" && q.UserID != q.Context.UserID:
		return t, agent.Invalid("user_id", "differs from context.user_id")
	case strings.TrimSpace(q.Message) == "":
		return t, agent.Invalid("message", "is empty")
	}
	if !named {
		t.Context.UserID = cmp.Or(q.UserID, q.Context.UserID)
	}
	if q.ChatHistory == nil {
		t.Message = q.Message
		return t, nil
	}
	t.History = agent.HistoryFresh
	if len(*q.ChatHistory) == 0 {
		t.Message = q.Message
		return t, nil
	}
	for i := range *q.ChatHistory {
		m, err := (*q.ChatHistory)[i].message(fmt.Sprintf("chat_history[%d]", i))
		if err != nil {
			return t, err
		}
		t.Messages = append(t.Messages, m)
	}
	t.Messages = append(t.Messages, agent.UserText(q.Message))
	return t, nil
}

func (e *entry) message(path string) (agent.Message, error) {
	m := agent.Message{Role: e.Role, Blocks: e.Blocks}
	if (e.Content != "") == (len(e.Blocks) > 0) {
		return m, agent.Invalid(path, "want exactly one of content and blocks")
	}
	if e.Content != "" {
		if e.Role == agent.RoleTool {
			return m, agent.Invalid(path+".blocks", "a tool message holds tool_result blocks")
		}
		m.Blocks = []agent.Block{agent.Text(e.Content)}
	}
	return m, m.Validate(path)
}
