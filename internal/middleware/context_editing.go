package middleware

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
)

// contextEditing shows the model less of a long conversation. It edits the request of a model call, never the stored messages, and copies
// what it changes, because messages may be shared. The same messages give the same bytes, for providers' caches.
type contextEditing struct {
	agent.Pass
	edits []clearToolUses
}

// contextEditingOptions are LangChain v1's; its edits are objects with a type here.
type contextEditingOptions struct {
	Edits []clearToolUsesOptions `json:"edits"` // in order, each on what the one before left; default: one with its defaults
}

// clearToolUsesOptions are those of LangChain v1's ClearToolUsesEdit. Tokens are counted as approximateTokens does.
type clearToolUsesOptions struct {
	Type            string   `json:"type"`              // clear_tool_uses, the default
	Trigger         *int     `json:"trigger"`           // tokens of the messages above which it edits; default 100,000
	Keep            *int     `json:"keep"`              // how many of the newest tool results stay; default 3
	ClearAtLeast    int      `json:"clear_at_least"`    // tokens after which it stops, the oldest going first; default 0: clear all
	ClearToolInputs bool     `json:"clear_tool_inputs"` // whether the arguments of the calls go as well
	ExcludeTools    []string `json:"exclude_tools"`     // whose uses stay
	Placeholder     *string  `json:"placeholder"`       // in place of an output; default [cleared]
}

// clearToolUses puts a placeholder in place of the outputs of older tool calls. The calls and results themselves stay, so that none is
// without the other.
type clearToolUses struct {
	trigger, keep, clearAtLeast int
	clearToolInputs             bool
	excludeTools                []string
	placeholder                 json.RawMessage
}

const clearToolUsesType = "clear_tool_uses"

func newContextEditing(options json.RawMessage) (agent.Middleware, error) {
	const maxCount = 8
	var o contextEditingOptions
	if err := decode(options, &o); err != nil {
		return nil, err
	}
	if len(o.Edits) > maxCount {
		return nil, agent.Invalid("edits", "want at most %d, got %d", maxCount, len(o.Edits))
	}
	if len(o.Edits) == 0 {
		o.Edits = []clearToolUsesOptions{{}}
	}
	m := &contextEditing{}
	for i := range o.Edits {
		edit, err := newClearToolUses(fmt.Sprintf("edits[%d].", i), &o.Edits[i])
		if err != nil {
			return nil, err
		}
		m.edits = append(m.edits, edit)
	}
	return m, nil
}

func newClearToolUses(path string, o *clearToolUsesOptions) (clearToolUses, error) {
	const maxTokens, maxKeep, maxPlaceholder = 100_000_000, 10_000, 1_000
	e := clearToolUses{
		trigger: valueOr(o.Trigger, 100_000), keep: valueOr(o.Keep, 3), clearAtLeast: o.ClearAtLeast, clearToolInputs: o.ClearToolInputs,
		excludeTools: o.ExcludeTools,
	}
	placeholder := valueOr(o.Placeholder, "[cleared]")
	switch {
	case o.Type != "" && o.Type != clearToolUsesType:
		return e, agent.Invalid(path+"type", "want %s, got %.50q", clearToolUsesType, o.Type)
	case e.trigger < 1 || e.trigger > maxTokens:
		return e, agent.Invalid(path+"trigger", "want 1 to %d tokens", maxTokens)
	case e.keep < 0 || e.keep > maxKeep:
		return e, agent.Invalid(path+"keep", "want 0 to %d tool results", maxKeep)
	case e.clearAtLeast < 0 || e.clearAtLeast > maxTokens:
		return e, agent.Invalid(path+"clear_at_least", "want 0 to %d tokens", maxTokens)
	case strings.TrimSpace(placeholder) == "" || len(placeholder) > maxPlaceholder: // providers refuse an empty text
		return e, agent.Invalid(path+"placeholder", "want a text of 1 to %d bytes", maxPlaceholder)
	}
	if err := checkNames(path+"exclude_tools", o.ExcludeTools); err != nil {
		return e, err
	}
	var err error
	e.placeholder, err = json.Marshal(placeholder)
	return e, err
}

// BeforeModel edits the messages of the request.
func (m *contextEditing) BeforeModel(_ context.Context, _ agent.Invocation, req *agent.ModelRequest) (agent.Jump, error) {
	for i := range m.edits {
		req.Messages = m.edits[i].apply(req.Messages)
	}
	return agent.JumpNone, nil
}

// apply returns the messages as they are, or an edited copy that shares what did not change.
func (e *clearToolUses) apply(messages []agent.Message) []agent.Message {
	chars := charsOf(messages)
	tokens := approximateTokens(chars)
	if tokens <= e.trigger {
		return messages
	}
	uses := toolUses(messages)
	uses = uses[:max(0, len(uses)-e.keep)]
	copied := editedConversation{messages: slices.Clone(messages), isCopied: make([]bool, len(messages)), chars: chars}
	for _, use := range uses {
		if !e.mayClear(messages, use) {
			continue
		}
		copied.change(use.result, func(b *agent.Block) { b.Output, b.Ref = e.placeholder, "" })
		if e.clearToolInputs {
			copied.change(use.call, func(b *agent.Block) { b.Args = json.RawMessage("{}") })
		}
		if e.clearAtLeast > 0 && tokens-approximateTokens(copied.chars) >= e.clearAtLeast {
			break
		}
	}
	return copied.messages
}

// mayClear reports whether a use may be cleared. A result without its call may not, because its tool is unknown.
func (e *clearToolUses) mayClear(messages []agent.Message, use toolUse) bool {
	if use.call == (blockPosition{}) {
		return false
	}
	result := use.result.in(messages)
	name := result.Name
	if name == "" {
		name = use.call.in(messages).Name
	}
	return !slices.Contains(e.excludeTools, name)
}

// blockPosition is the position of a block. Blocks count from 1, so that the zero value means none.
type blockPosition struct{ message, block int }

func (p blockPosition) in(messages []agent.Message) *agent.Block {
	return &messages[p.message].Blocks[p.block-1]
}

// toolUse is a result and the call in the reply before it that it answers; ids repeat between replies.
type toolUse struct{ result, call blockPosition }

// toolUses returns the results of a conversation, in order, with their calls.
func toolUses(messages []agent.Message) []toolUse {
	var uses []toolUse
	reply := -1 // the latest message of the model
	for i := range messages {
		switch messages[i].Role {
		case agent.RoleAssistant:
			reply = i
		case agent.RoleTool:
			for j := range messages[i].Blocks {
				if b := &messages[i].Blocks[j]; b.Type == agent.BlockToolResult {
					uses = append(uses, toolUse{result: blockPosition{i, j + 1}, call: callFor(messages, reply, b.ToolCallID)})
				}
			}
		case agent.RoleUser, agent.RoleSystem:
		}
	}
	return uses
}

func callFor(messages []agent.Message, reply int, id agent.CallID) blockPosition {
	if reply < 0 {
		return blockPosition{}
	}
	for j := range messages[reply].Blocks {
		if b := &messages[reply].Blocks[j]; b.Type == agent.BlockToolCall && b.ID == string(id) {
			return blockPosition{reply, j + 1}
		}
	}
	return blockPosition{}
}

// editedConversation is a conversation with changed blocks.
type editedConversation struct {
	messages []agent.Message
	isCopied []bool // by message: its blocks are a copy
	chars    []int  // by message: how long it is now
}

func (e *editedConversation) change(p blockPosition, change func(*agent.Block)) {
	if !e.isCopied[p.message] {
		e.messages[p.message].Blocks = slices.Clone(e.messages[p.message].Blocks)
		e.isCopied[p.message] = true
	}
	b := p.in(e.messages)
	before := blockChars(b)
	change(b)
	e.chars[p.message] += blockChars(b) - before
}

const (
	charsPerToken    = 4
	tokensPerMessage = 3  // besides its content
	tokensPerMedia   = 85 // of an image, a recording or a file, whatever its size
)

// approximateTokens estimates tokens as LangChain's default counter does: 4 characters per token, rounded up for each message, and 3 more
// for each. Text in scripts other than Latin often has twice as many.
func approximateTokens(chars []int) int {
	tokens := 0
	for _, n := range chars {
		tokens += (n+charsPerToken-1)/charsPerToken + tokensPerMessage
	}
	return tokens
}

// charsOf returns the characters of each message. Media count as 85 tokens.
func charsOf(messages []agent.Message) []int {
	chars := make([]int, len(messages))
	for i, m := range messages {
		chars[i] = len(m.Role)
		for j := range m.Blocks {
			chars[i] += blockChars(&m.Blocks[j])
		}
	}
	return chars
}

// blockChars returns the characters of a block that a provider receives.
func blockChars(b *agent.Block) int {
	switch b.Type {
	case agent.BlockImage, agent.BlockAudio, agent.BlockFile:
		return tokensPerMedia * charsPerToken
	default:
	}
	chars := utf8.RuneCount(b.Args) + utf8.RuneCount(b.Output) + utf8.RuneCount(b.Value)
	for _, s := range []string{b.ID, b.Text, b.Reasoning, b.Signature, b.Name, string(b.ToolCallID), b.Error} {
		chars += utf8.RuneCountInString(s)
	}
	if len(b.Output) == 0 { // else the reference is not shown
		chars += len(b.Ref)
	}
	return chars
}
