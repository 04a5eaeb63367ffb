package middleware

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// contextSize measures a conversation. As a trigger all of its measures must be reached (as in LangChain's JavaScript).
type contextSize struct {
	Tokens   *int     `json:"tokens"`
	Messages *int     `json:"messages"`
	Fraction *float64 `json:"fraction"` // of the context of the turn's model
}

func parseTrigger(raw json.RawMessage) ([]contextSize, error) {
	const maxCount = 8
	text := strings.TrimSpace(string(raw))
	if text == "" || text == "null" {
		return nil, agent.Invalid("trigger", `want one, such as {"tokens": 4000}: without, nothing is ever summarized`)
	}
	var list []contextSize
	if strings.HasPrefix(text, "[") {
		o := struct {
			Trigger []contextSize `json:"trigger"`
		}{}
		if err := decode(json.RawMessage(`{"trigger":`+text+`}`), &o); err != nil { // with its path
			return nil, err
		}
		list = o.Trigger
	} else {
		list = []contextSize{{}}
		if err := decode(raw, &list[0]); err != nil {
			return nil, withPath("trigger", err)
		}
	}
	if len(list) == 0 || len(list) > maxCount {
		return nil, agent.Invalid("trigger", "want 1 to %d conditions", maxCount)
	}
	for i, t := range list {
		path := "trigger"
		if strings.HasPrefix(text, "[") {
			path = fmt.Sprintf("trigger[%d]", i)
		}
		if err := t.check(path); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func parseKeep(raw json.RawMessage) (contextSize, error) {
	text := strings.TrimSpace(string(raw))
	if text == "" || text == "null" {
		n := defaultKeep
		return contextSize{Messages: &n}, nil
	}
	var keep contextSize
	if err := decode(raw, &keep); err != nil {
		return keep, withPath("keep", err)
	}
	if keep.measures() > 1 {
		return keep, agent.Invalid("keep", "want one of tokens, messages and fraction")
	}
	return keep, keep.check("keep")
}

func (c contextSize) measures() int {
	n := 0
	for _, given := range []bool{c.Tokens != nil, c.Messages != nil, c.Fraction != nil} {
		if given {
			n++
		}
	}
	return n
}

func (c contextSize) check(path string) error {
	const maxTokens, maxMessages = 100_000_000, 1_000_000
	switch {
	case c.measures() == 0:
		return agent.Invalid(path, "want tokens, messages or fraction")
	case c.Tokens != nil && (*c.Tokens < 1 || *c.Tokens > maxTokens):
		return agent.Invalid(path+".tokens", "want 1 to %d", maxTokens)
	case c.Messages != nil && (*c.Messages < 1 || *c.Messages > maxMessages):
		return agent.Invalid(path+".messages", "want 1 to %d", maxMessages)
	case c.Fraction != nil && (*c.Fraction <= 0 || *c.Fraction > 1):
		return agent.Invalid(path+".fraction", "want more than 0, at most 1")
	}
	return nil
}

// above refuses to keep as much as the trigger's only measure: then each call would summarize one message more.
func (c contextSize) above(keep contextSize) error {
	if c.measures() > 1 {
		return nil
	}
	switch {
	case c.Messages != nil && keep.Messages != nil && *keep.Messages >= *c.Messages:
		return agent.Invalid("keep.messages", "is %d, want less than the trigger's %d", *keep.Messages, *c.Messages)
	case c.Tokens != nil && keep.Tokens != nil && *keep.Tokens >= *c.Tokens:
		return agent.Invalid("keep.tokens", "is %d, want less than the trigger's %d", *keep.Tokens, *c.Tokens)
	case c.Fraction != nil && keep.Fraction != nil && *keep.Fraction >= *c.Fraction:
		return agent.Invalid("keep.fraction", "is %g, want less than the trigger's %g", *keep.Fraction, *c.Fraction)
	}
	return nil
}

// reached reports whether a conversation is that long. A fraction of a context that is not known never is.
func (c contextSize) reached(messages, tokens, window int) bool {
	return (c.Messages == nil || messages >= *c.Messages) &&
		(c.Tokens == nil || tokens >= *c.Tokens) &&
		(c.Fraction == nil || window > 0 && tokens >= max(1, int(float64(window)**c.Fraction)))
}
