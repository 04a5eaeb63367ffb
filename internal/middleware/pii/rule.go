package pii

import (
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Types that need no detector.
const (
	TypeEmail      = "email"
	TypeCreditCard = "credit_card"
	TypeIP         = "ip"
	TypeMACAddress = "mac_address"
	TypeURL        = "url"
)

// Strategies for a value.
const (
	StrategyRedact = "redact" // [REDACTED_EMAIL]
	StrategyMask   = "mask"   // a part is left to recognise it by, e.g. ****-****-****-1234
	StrategyHash   = "hash"   // <email_hash:1a2b3c4d>, the same for the same value
	StrategyBlock  = "block"  // an error
)

// RuleConfig says what a rule looks for and what replaces it. The errors of [NewRule] name the fields as the options do.
type RuleConfig struct {
	Type     string // a built-in type, or any name when there is a detector
	Strategy string // empty: redact
	Detector string // an RE2 expression that takes the place of the built-in detection; empty: the built-in one
	Lookback int    // bytes: the longest value that the detector has to see whole; 0: as long as the expression can match, else 256
}

// Rule finds the values of one type in text and replaces them. It is safe for concurrent use.
type Rule struct {
	kind     string
	strategy string
	finder   finder
}

// NewRule checks a configuration. Errors are [agent.CodeInvalid] with the field.
func NewRule(c RuleConfig) (*Rule, error) {
	r := &Rule{kind: c.Type, strategy: c.Strategy}
	if !isTypeName(c.Type) {
		return nil, agent.Invalid("pii_type", "want a letter and then up to 63 letters, digits, _ and -")
	}
	switch c.Strategy {
	case "":
		r.strategy = StrategyRedact
	case StrategyRedact, StrategyMask, StrategyHash, StrategyBlock:
	default:
		return nil, agent.Invalid("strategy", "want redact, mask, hash or block, got %.50q", c.Strategy)
	}
	if c.Detector != "" {
		p, err := newPattern(c.Detector, c.Lookback)
		if err != nil {
			return nil, err
		}
		r.finder = p
		return r, nil
	}
	if c.Lookback != 0 {
		return nil, agent.Invalid("stream_lookback", "is for a detector: the built-in types know how long their values are")
	}
	switch c.Type {
	case TypeEmail:
		r.finder = emailFinder{}
	case TypeCreditCard:
		r.finder = windowFinder{first: isDigit, match: matchCard}
	case TypeIP:
		r.finder = windowFinder{first: isIPStart, match: matchIP}
	case TypeMACAddress:
		r.finder = windowFinder{first: isHex, match: matchMAC}
	case TypeURL:
		r.finder = urlFinder{}
	default:
		return nil, agent.Invalid("detector", "is needed: %q is none of email, credit_card, ip, mac_address and url", c.Type)
	}
	return r, nil
}

// Apply replaces the values in text and counts them. Under block it returns an [agent.CodeDenied] error with the type and the count, never
// a value.
func (r *Rule) Apply(text string) (out string, found int, err error) {
	edits := r.edits(text)
	if len(edits) == 0 {
		return text, 0, nil
	}
	if r.strategy == StrategyBlock {
		return "", len(edits), r.deniedError(len(edits))
	}
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(text[at:e.start])
		b.WriteString(e.with)
		at = e.end
	}
	b.WriteString(text[at:])
	return b.String(), len(edits), nil
}

// edit puts with in the place of text[start:end].
type edit struct {
	start, end int
	with       string
}

// edits returns the replacements in order. The leftmost value wins, of several the longest.
func (r *Rule) edits(text string) []edit {
	var out []edit
	for at := 0; at < len(text); {
		v, _, ok := r.finder.find(text, at, false)
		if !ok {
			break
		}
		e := edit{start: v.start, end: v.end}
		if v.rest == nil {
			e.with = r.replacement(text[v.start:v.end])
		} else {
			n, _ := v.rest.take(text[v.end:], false)
			e.end += n
			l := r.newLongValue(v)
			l.add(text[e.start:e.end])
			e.with = l.replacement()
		}
		out = append(out, e)
		at = e.end
	}
	return out
}

// withRedactStrategy returns the rule with the strategy redact.
func (r *Rule) withRedactStrategy() *Rule {
	return &Rule{kind: r.kind, strategy: StrategyRedact, finder: r.finder}
}

func (r *Rule) deniedError(found int) error {
	return &agent.Error{Code: agent.CodeDenied, Err: fmt.Errorf("detected %d instance(s) of %s in text content", found, r.kind)}
}

func isTypeName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !isLetter(c) && (i == 0 || c != '_' && c != '-' && !isDigit(c)) {
			return false
		}
	}
	return s != "" && len(s) <= 64
}
