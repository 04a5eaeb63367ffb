package middleware

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	descriptionPrefix = "Tool execution requires approval" // LangChain v1's
	maxDescription    = 4 << 10                            // bytes of what a person is told
	maxExpiry         = 366 * 24 * time.Hour
	maxPolicies       = 256 // entries of interrupt_on
)

// The values of the option default.
const (
	defaultKeepVerdict = "keep"
	defaultAsk         = "ask"
	defaultAllow       = "allow"
)

// humanInTheLoop says which tool calls wait for a person, and how: LangChain v1's HumanInTheLoopMiddleware with more to say. It decides in
// this order, and the first that applies has its way:
//
//  1. the tool's entry in interrupt_on: false never asks, true always, a policy with a condition when that is true
//  2. allow: the tool is never asked about
//  3. when: true asks
//  4. default
//
// What the agent's document wants to be asked about always, is. A condition that fails asks: it may have been about to say so.
type humanInTheLoop struct {
	agent.Pass
	options  humanOptions
	when     *condition         // nil: none
	policies map[string]*policy // by tool
	usual    policy             // of tools without an entry
}

type humanOptions struct {
	InterruptOn       map[string]json.RawMessage `json:"interrupt_on"`       // by tool: true, false or a policyOptions
	DescriptionPrefix string                     `json:"description_prefix"` // default descriptionPrefix
	Allow             []string                   `json:"allow"`              // tools, or what their names begin with and a *
	When              string                     `json:"when"`               // CEL
	Default           string                     `json:"default"`            // keep (default): as the tool's own policy says; ask; allow

	waitOptions
}

// waitOptions are how a call waits.
type waitOptions struct {
	ExpiresIn json.RawMessage     `json:"expires_in"` // seconds, or a text such as 30m; default: it waits for ever
	OnExpiry  agent.Expiry        `json:"on_expiry"`  // reject (default), approve or end
	Remember  agent.RememberScope `json:"remember"`   // what remembering a decision means: call (default), tool or off
}

// policyOptions are those of one tool: LangChain's InterruptOnConfig, its when a CEL expression, and how its calls wait.
type policyOptions struct {
	AllowedDecisions []agent.DecisionKind `json:"allowed_decisions"` // default: all four
	Description      *string              `json:"description"`       // what the person is told, instead of the prefix and the call
	When             *string              `json:"when"`              // default: every call

	waitOptions
}

// policy is one tool's, ready to be applied.
type policy struct {
	never       bool
	when        *condition // nil: always
	description string
	allowed     []agent.DecisionKind
	wait
}

type wait struct {
	expiresSec int64
	onExpiry   agent.Expiry
	remember   agent.RememberScope
}

// approvals makes the middleware; its conditions are compiled once.
type approvals struct{ conditions conditions }

func newApprovals() approvals { return approvals{newConditions()} }

func (a approvals) build(options json.RawMessage) (agent.Middleware, error) {
	o := humanOptions{DescriptionPrefix: descriptionPrefix, Default: defaultKeepVerdict}
	if err := decode(options, &o); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	m := &humanInTheLoop{options: o, policies: make(map[string]*policy, len(o.InterruptOn))}
	var err error
	if m.usual.wait, err = o.parse(wait{}); err != nil {
		return nil, err
	}
	if o.When != "" {
		if m.when, err = a.conditions.compile(o.When); err != nil {
			return nil, err
		}
	}
	expires := m.usual.expiresSec > 0
	for _, name := range slices.Sorted(maps.Keys(o.InterruptOn)) {
		p, err := a.policy(o.InterruptOn[name], m.usual.wait)
		if err != nil {
			return nil, withPath("interrupt_on."+name, err)
		}
		m.policies[name] = p
		expires = expires || p.expiresSec > 0
	}
	if o.OnExpiry != "" && !expires {
		return nil, agent.Invalid("on_expiry", "needs expires_in")
	}
	return m, nil
}

func (o *humanOptions) check() error {
	if err := checkText("description_prefix", o.DescriptionPrefix, 1_000); err != nil {
		return err
	}
	if err := checkNames("allow", o.Allow); err != nil {
		return err
	}
	for i, name := range o.Allow {
		if strings.Contains(strings.TrimSuffix(name, "*"), "*") || name == "*" {
			return agent.Invalid(fmt.Sprintf("allow[%d]", i), "want a name, or what names begin with and one * behind it; to allow all say default allow")
		}
	}
	if len(o.InterruptOn) > maxPolicies {
		return agent.Invalid("interrupt_on", "want at most %d tools, got %d", maxPolicies, len(o.InterruptOn))
	}
	for name := range o.InterruptOn {
		if err := checkName("interrupt_on", name); err != nil {
			return err
		}
	}
	return oneOf("default", o.Default, defaultKeepVerdict, defaultAsk, defaultAllow)
}

// policy reads one entry of interrupt_on; what it does not say about waiting is as usual.
func (a approvals) policy(raw json.RawMessage, usual wait) (*policy, error) {
	switch string(bytes.TrimSpace(raw)) {
	case "false":
		return &policy{never: true}, nil
	case "true":
		return &policy{wait: usual}, nil
	}
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		return nil, agent.Invalid("", "want true, false or an object")
	}
	var o policyOptions
	if err := decode(raw, &o); err != nil {
		return nil, err
	}
	p := &policy{allowed: o.AllowedDecisions}
	var err error
	if p.wait, err = o.parse(usual); err != nil {
		return nil, err
	}
	if o.AllowedDecisions != nil {
		if err := checkDecisions(o.AllowedDecisions); err != nil {
			return nil, err
		}
		if p.onExpiry == agent.ExpiryApprove && !slices.Contains(o.AllowedDecisions, agent.DecisionApprove) {
			return nil, agent.Invalid("allowed_decisions", "want approve among them: on_expiry says that it is what an expired call gets")
		}
	}
	if o.Description != nil {
		if err := checkText("description", *o.Description, maxDescription); err != nil {
			return nil, err
		}
		p.description = *o.Description
	}
	if o.When != nil {
		p.when, err = a.conditions.compile(*o.When)
	}
	return p, err
}

func checkDecisions(list []agent.DecisionKind) error {
	all := []agent.DecisionKind{agent.DecisionApprove, agent.DecisionEdit, agent.DecisionReject, agent.DecisionRespond}
	if len(list) == 0 || len(list) > len(all) {
		return agent.Invalid("allowed_decisions", "want 1 to %d decisions", len(all))
	}
	for i, d := range list {
		field := fmt.Sprintf("allowed_decisions[%d]", i)
		if err := oneOf(field, d, all...); err != nil {
			return err
		}
		if slices.Contains(list[:i], d) {
			return agent.Invalid(field, "%s is given twice", d)
		}
	}
	return nil
}

// parse reads how a call waits; what is not said is as usual.
func (o *waitOptions) parse(usual wait) (wait, error) {
	w := wait{onExpiry: cmp.Or(o.OnExpiry, usual.onExpiry), remember: cmp.Or(o.Remember, usual.remember), expiresSec: usual.expiresSec}
	if len(o.ExpiresIn) > 0 {
		d, err := durationOf(o.ExpiresIn)
		if err != nil {
			return w, err
		}
		w.expiresSec = int64(d / time.Second)
	}
	if o.OnExpiry != "" {
		if err := oneOf("on_expiry", o.OnExpiry, agent.ExpiryReject, agent.ExpiryApprove, agent.ExpiryEnd); err != nil {
			return w, err
		}
	}
	if o.Remember != "" {
		if err := oneOf("remember", o.Remember, agent.RememberCall, agent.RememberTool, agent.RememberOff); err != nil {
			return w, err
		}
	}
	return w, nil
}

// durationOf reads seconds, or a text as Go has them.
func durationOf(raw json.RawMessage) (time.Duration, error) {
	const field = "expires_in"
	var (
		text string
		sec  float64
		d    time.Duration
		err  error
	)
	switch {
	case json.Unmarshal(raw, &text) == nil && !bytes.Equal(raw, []byte("null")):
		if d, err = time.ParseDuration(text); err != nil {
			return 0, agent.Invalid(field, "want seconds, or a duration such as 30m or 48h, got %.50q", text)
		}
	case json.Unmarshal(raw, &sec) == nil && sec <= maxExpiry.Seconds():
		d = seconds(sec)
	default:
		return 0, agent.Invalid(field, "want seconds, or a duration such as 30m or 48h, up to %.0fh", maxExpiry.Hours())
	}
	if d < time.Second || d > maxExpiry || d%time.Second != 0 {
		return 0, agent.Invalid(field, "want whole seconds, from 1s to %.0fh", maxExpiry.Hours())
	}
	return d, nil
}

// CheckPlan implements [agent.PlanChecker].
func (m *humanInTheLoop) CheckPlan(p *agent.Plan) error {
	for _, name := range slices.Sorted(maps.Keys(m.policies)) {
		if err := checkTool(p, "interrupt_on."+name, name); err != nil {
			return err
		}
	}
	for i, name := range m.options.Allow {
		if strings.HasSuffix(name, "*") {
			continue
		}
		if err := checkTool(p, fmt.Sprintf("allow[%d]", i), name); err != nil {
			return err
		}
	}
	return nil
}
