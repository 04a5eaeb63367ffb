package middleware

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

const (
	summaryNote     = "summarization"                                  // the name under which a summary is kept with the session
	summaryPrefix   = "Here is a summary of the conversation to date:" // in front of the summary in its message
	summaryTime     = 5 * time.Minute                                  // of one request for a summary
	maxSummaryBytes = 64 << 10
	defaultKeep     = 20 // messages
)

// summarization replaces the older messages of a long conversation with a summary, as LangChain v1's SummarizationMiddleware does. It changes
// the request of a model call, never the stored messages. It keeps the summary beside the transcript, with the hash of the messages it
// replaces, and uses it as long as they begin the conversation. Without a summary the messages stay.
type summarization struct {
	agent.Pass
	options summarizationOptions
	trigger []contextSize // summarize when any of them is reached
	keep    contextSize
}

// summarizationOptions are LangChain v1's. Tokens are counted as approximateTokens does; a trigger is also reached by the tokens that the
// provider has reported of the call before.
type summarizationOptions struct {
	Model         string          `json:"model"`                    // a profile of the agent; default the turn's
	Trigger       json.RawMessage `json:"trigger"`                  // a contextSize or a list of them
	Keep          json.RawMessage `json:"keep"`                     // a contextSize of one measure; default {"messages": 20}
	SummaryPrompt string          `json:"summary_prompt"`           // with {messages}; default summaryPrompt
	TrimTokens    *int            `json:"trim_tokens_to_summarize"` // newest tokens of the messages that are summarized; null: all; default 4,000
}

func newSummarization(options json.RawMessage) (agent.Middleware, error) {
	const maxPrompt, maxTokens = 16_000, 100_000_000
	trim := 4_000
	m := &summarization{options: summarizationOptions{SummaryPrompt: summaryPrompt, TrimTokens: &trim}}
	o := &m.options
	if err := decode(options, o); err != nil {
		return nil, err
	}
	if err := checkText("summary_prompt", o.SummaryPrompt, maxPrompt); err != nil {
		return nil, err
	}
	switch {
	case len(o.Model) > 128:
		return nil, agent.Invalid("model", "want a name of at most 128 bytes")
	case !strings.Contains(o.SummaryPrompt, messagesMark):
		return nil, agent.Invalid("summary_prompt", "want %s where the messages go", messagesMark)
	case o.TrimTokens != nil && (*o.TrimTokens < 1 || *o.TrimTokens > maxTokens):
		return nil, agent.Invalid("trim_tokens_to_summarize", "want 1 to %d tokens, or null", maxTokens)
	}
	var err error
	if m.trigger, err = parseTrigger(o.Trigger); err != nil {
		return nil, err
	}
	if m.keep, err = parseKeep(o.Keep); err != nil {
		return nil, err
	}
	for _, t := range m.trigger {
		if err := t.above(m.keep); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// CheckPlan implements [agent.PlanChecker].
func (m *summarization) CheckPlan(p *agent.Plan) error {
	if _, err := p.Model(m.options.Model); err != nil && m.options.Model != "" {
		return ruleViolation(ruleKnownModel, "model", "the agent has no model %.50q", m.options.Model)
	}
	field := ""
	if m.keep.Fraction != nil {
		field = "keep.fraction"
	}
	if slices.ContainsFunc(m.trigger, func(c contextSize) bool { return c.Fraction != nil }) {
		field = "trigger"
	}
	if field == "" {
		return nil
	}
	for i := range p.Models { // a request may choose any
		if p.Models[i].ContextTokens < 1 {
			return ruleViolation(ruleKnownContext, field, "model %.50q does not say its context_tokens, which a fraction needs", p.Models[i].Profile)
		}
	}
	return nil
}

// BeforeModel shortens the messages of the request.
func (m *summarization) BeforeModel(ctx context.Context, inv agent.Invocation, req *agent.ModelRequest) (agent.Jump, error) {
	s, note := summarizedConversation{shown: req.Messages}, readSummaryNote(ctx, inv)
	s.useKeptSummary(note, req.Messages)
	if m.isDue(s.shown, inv.Model.ContextTokens, note.reportedOf(req.Messages)) {
		m.summarize(ctx, inv, req, &s)
	}
	req.Messages = s.shown
	return agent.JumpNone, nil
}

// isDue reports whether a trigger is reached by the estimate of the messages or by the report of a provider.
func (m *summarization) isDue(shown []agent.Message, window, reported int) bool {
	tokens := max(approximateTokens(charsOf(shown)), reported)
	return slices.ContainsFunc(m.trigger, func(c contextSize) bool { return c.reached(len(shown), tokens, window) })
}

// WrapModel stores the tokens that the provider reports if they reach a trigger that the estimate does not. The next call uses them: they
// include system prompt and tools, and scripts whose characters are tokens each.
func (m *summarization) WrapModel(next agent.ModelFunc) agent.ModelFunc {
	return func(ctx context.Context, inv agent.Invocation, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
		reply, err := next(ctx, inv, req, emit)
		reported := int(reply.Usage.InputTokens + reply.Usage.OutputTokens)
		if err != nil || !m.reachedByReport(req.Messages, inv.Model.ContextTokens, reported) {
			return reply, err
		}
		note := readSummaryNote(ctx, inv)
		note.Reported, note.Messages = reported, len(req.Messages)
		if note.Covered > 0 && strings.HasPrefix(agent.Normalize(req.Messages[0].Blocks), summaryPrefix) {
			note.Messages += note.Covered - 1
		}
		note.store(ctx, inv)
		return reply, nil
	}
}

// reachedByReport reports whether a trigger is reached by the reported tokens and not by the estimate.
func (m *summarization) reachedByReport(shown []agent.Message, window, reported int) bool {
	estimated := approximateTokens(charsOf(shown))
	return slices.ContainsFunc(m.trigger, func(c contextSize) bool {
		return c.reached(math.MaxInt, reported, window) && !c.reached(math.MaxInt, estimated, window)
	})
}

// summarizedConversation is a conversation that may begin with a summary.
type summarizedConversation struct {
	shown   []agent.Message // what the model is shown: the summary's message, if any, and the rest
	covered int             // how many messages of the request the summary stands for, 0: there is none
}

// keptSummary is the note that is stored with the session.
type keptSummary struct {
	Covered int    `json:"covered"` // how many messages, from the first, it stands for
	Hash    string `json:"hash"`    // of these messages
	Summary string `json:"summary"`

	Reported int `json:"reported_tokens,omitempty"`   // what a provider has counted of a call that was made since
	Messages int `json:"reported_messages,omitempty"` // how many messages the conversation had then, without the reply
}

// readSummaryNote returns the note of the session. One that cannot be read is empty: the price is a new summary.
func readSummaryNote(ctx context.Context, inv agent.Invocation) keptSummary {
	if inv.Note == nil {
		return keptSummary{}
	}
	raw, err := inv.Note(ctx, summaryNote)
	var note keptSummary
	if err != nil || len(raw) == 0 || json.Unmarshal(raw, &note) != nil {
		return keptSummary{}
	}
	return note
}

// store stores the note. After a failure the next call makes another summary.
func (k *keptSummary) store(ctx context.Context, inv agent.Invocation) {
	if raw, err := json.Marshal(k); err == nil && inv.SetNote != nil {
		_ = inv.SetNote(ctx, summaryNote, raw)
	}
}

// reportedOf returns the tokens that a provider has reported of these messages, 0 if they do not go on with its reply.
func (k *keptSummary) reportedOf(messages []agent.Message) int {
	if k.Messages < 1 || k.Messages >= len(messages) || messages[k.Messages].Role != agent.RoleAssistant {
		return 0
	}
	return k.Reported
}

// useKeptSummary uses a stored summary if it is of these messages.
func (s *summarizedConversation) useKeptSummary(kept keptSummary, messages []agent.Message) {
	if kept.Covered < 1 || kept.Covered >= len(messages) || strings.TrimSpace(kept.Summary) == "" {
		return
	}
	if hash, ok := hashOf(messages[:kept.Covered]); !ok || hash != kept.Hash {
		return
	}
	s.replace(kept.Summary, kept.Covered, messages)
}

func (s *summarizedConversation) replace(summary string, covered int, messages []agent.Message) {
	s.covered = covered
	s.shown = append([]agent.Message{agent.UserText(summaryPrefix + "\n\n" + summary)}, messages[covered:]...)
}

// summarize makes a summary of the messages that need not stay, the summary so far included, and stores it with the session.
func (m *summarization) summarize(ctx context.Context, inv agent.Invocation, req *agent.ModelRequest, s *summarizedConversation) {
	first := 0 // of those that no summary stands for
	if s.covered > 0 {
		first = 1
	}
	cut := m.cutIndex(s.shown, inv.Model.ContextTokens)
	if cut <= first || inv.Ask == nil {
		return
	}
	covered := s.covered + cut - first
	hash, ok := hashOf(req.Messages[:covered])
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, summaryTime)
	defer cancel()
	text := strings.ReplaceAll(m.options.SummaryPrompt, messagesMark, transcript(s.shown[:first], s.shown[first:cut], m.options.TrimTokens))
	reply, err := inv.Ask(ctx, agent.ModelRequest{Profile: m.options.Model, Messages: []agent.Message{agent.UserText(text)}})
	summary := clip.Bytes(strings.TrimSpace(agent.Normalize(reply.Blocks)), maxSummaryBytes)
	if err != nil || summary == "" {
		return // the messages stay as they are; an error that matters comes again with the call itself
	}
	s.replace(summary, covered, req.Messages)
	note := keptSummary{Covered: covered, Hash: hash, Summary: summary}
	note.store(ctx, inv)
}

// cutIndex returns the index of the first message to keep: as many as keep says, and more if a result would lose its call.
func (m *summarization) cutIndex(shown []agent.Message, window int) int {
	cut := len(shown) - valueOr(m.keep.Messages, defaultKeep)
	switch {
	case m.keep.Tokens != nil:
		cut = newestWithin(shown, *m.keep.Tokens)
	case m.keep.Fraction != nil && window > 0:
		cut = newestWithin(shown, max(1, int(float64(window)**m.keep.Fraction)))
	}
	return extendToCalls(shown, max(0, cut))
}

// newestWithin returns the index from which the messages have at most so many tokens. It always keeps the last message.
func newestWithin(messages []agent.Message, tokens int) int {
	chars := charsOf(messages)
	i, sum := len(messages), 0
	for i > 0 {
		sum += approximateTokens(chars[i-1 : i])
		if sum > tokens {
			break
		}
		i--
	}
	return max(0, min(i, len(messages)-1))
}

// extendToCalls moves a cut back until every result behind it has its call.
func extendToCalls(messages []agent.Message, cut int) int {
	uses := toolUses(messages)
	for _, use := range slices.Backward(uses) {
		if use.result.message >= cut && use.call != (blockPosition{}) {
			cut = min(cut, use.call.message)
		}
	}
	for cut > 0 && cut < len(messages) && messages[cut].Role == agent.RoleTool { // one whose call is not there: providers refuse it at the beginning
		cut--
	}
	return cut
}

// hashOf returns a hash of messages. ok is false if one of them has invalid JSON.
func hashOf(messages []agent.Message) (hash string, ok bool) {
	h := sha256.New()
	e := json.NewEncoder(h)
	for i := range messages {
		if err := e.Encode(messages[i]); err != nil {
			return "", false
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), true
}
