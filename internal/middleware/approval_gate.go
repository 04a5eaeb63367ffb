package middleware

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// ruleAlways is the rule of a call that no option may let pass.
const ruleAlways = "always asked"

// Gate implements [agent.Gater]. Calls that no person decides pass unchanged.
func (m *humanInTheLoop) Gate(call agent.GatedCall, so agent.GateVerdict) (agent.GateVerdict, error) {
	if so.Gate != "" && so.Gate != agent.GateNone && so.Gate != agent.GateApproval {
		return so, nil
	}
	p, ok := m.policies[call.Tool.Spec.Name]
	if !ok {
		p = &m.usual
	}
	d := m.decide(&call, so, p, ok)
	if !d.ask && call.Tool.Approval == agent.ApproveAlways {
		d = decision{ask: true, rule: ruleAlways}
	}
	if !d.ask {
		return agent.GateVerdict{Gate: agent.GateNone}, nil
	}
	v := agent.GateVerdict{
		Gate: agent.GateApproval, Rule: d.rule, Description: m.describe(&call, p, d.note), Allowed: slices.Clone(p.allowed),
		ExpiresSec: p.expiresSec, OnExpiry: p.onExpiry, Remember: p.remember,
	}
	if d.kept { // what another middleware has said about it stands
		v.Description, v.OnExpiry = cmp.Or(so.Description, v.Description), cmp.Or(so.OnExpiry, v.OnExpiry)
		v.ExpiresSec, v.Remember = cmp.Or(so.ExpiresSec, v.ExpiresSec), cmp.Or(so.Remember, v.Remember)
		if so.Allowed != nil {
			v.Allowed = so.Allowed
		}
	}
	return v, nil
}

// decision says whether a person is asked, and by which option.
type decision struct {
	ask  bool
	rule string // goes into the workflow's history: no content
	note string // for the person
	kept bool   // it is the verdict so far
}

func (m *humanInTheLoop) decide(call *agent.GatedCall, so agent.GateVerdict, p *policy, named bool) decision {
	own := "interrupt_on." + call.Tool.Spec.Name
	switch {
	case named && p.never, !named && m.allows(call.Tool.Spec.Name):
		return decision{}
	case named && p.when != nil:
		return evaluateCondition(p.when, call, own+".when")
	case named:
		return decision{ask: true, rule: "human_in_the_loop: " + own}
	}
	if m.when != nil {
		if d := evaluateCondition(m.when, call, "when"); d.ask {
			return d
		}
	}
	switch m.options.Default {
	case defaultAsk:
		return decision{ask: true, rule: "human_in_the_loop: default"}
	case defaultAllow:
		return decision{}
	default:
		return decision{ask: so.Gate == agent.GateApproval, rule: so.Rule, kept: true}
	}
}

// evaluateCondition decides by a condition. If it fails, a person is asked. CEL's reason may quote the arguments.
func evaluateCondition(c *condition, call *agent.GatedCall, option string) decision {
	holds, err := c.holds(call)
	if err != nil {
		return decision{
			ask: true, rule: "human_in_the_loop: " + option + " failed, so a person is asked",
			note: fmt.Sprintf("The condition %s failed, so you are asked to be safe: %s", option, reasonOf(err)),
		}
	}
	return decision{ask: holds, rule: "human_in_the_loop: " + option}
}

func (m *humanInTheLoop) allows(tool string) bool {
	return slices.ContainsFunc(m.options.Allow, func(name string) bool {
		prefix, many := strings.CutSuffix(name, "*")
		return tool == name || many && strings.HasPrefix(tool, prefix)
	})
}

// describe returns the text for the person, in LangChain's form.
func (m *humanInTheLoop) describe(call *agent.GatedCall, p *policy, note string) string {
	if note != "" {
		note += "\n\n"
	}
	text := note + p.description
	if p.description == "" {
		text = fmt.Sprintf("%s%s\n\nTool: %s\nArgs: %s", note, m.options.DescriptionPrefix, call.Tool.Spec.Name, cmp.Or(string(call.Args), "{}"))
	}
	return clip.Bytes(strings.ToValidUTF8(text, "\uFFFD"), maxDescription-len("…"))
}
