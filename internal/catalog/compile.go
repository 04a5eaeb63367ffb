package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
)

// maxPlan bounds a compiled plan, in bytes; what keeps plans takes twice as much.
const maxPlan = 4 << 20

// compiled is an agent's plan with what it was made of.
type compiled struct {
	plan agent.Plan
	hash string // sha256:<hex> of body
	body []byte // canonical JSON

	inputs   string              // digest of everything that it was made of
	uses     []agent.DocumentKey // every key that was looked up, found or not
	revision int64               // the newest of them
	faults   agent.Faults        // why there is no plan
	saved    atomic.Bool         // the plan can be found by its hash, in every process
}

// err is nil when there is a plan.
func (c *compiled) err() error { return c.faults.Err() }

// Encode returns the canonical JSON of a plan (RFC 8785) and its hash "sha256:<hex>". The same plan has the same hash.
func Encode(p *agent.Plan) (body []byte, hash string, err error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, "", fmt.Errorf("encode plan: %w", err)
	}
	canonical := jsontext.Value(raw)
	if err := canonical.Canonicalize(); err != nil {
		return nil, "", fmt.Errorf("canonical plan: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return canonical, "sha256:" + hex.EncodeToString(sum[:]), nil
}

// compiler makes the plan of one agent out of what gather found.
type compiler struct {
	parts *Parts
	e     *entry
	inst  *agent.AgentInstance
	in    *inputs
	plan  agent.Plan
	given parameters // of the instance, defaults filled in
	alone []claim    // the models that invoke tools by themselves

	temperature           *float64 // given by a parameter
	maxTokens, iterations int      // likewise; 0: not given

	out *compiled
}

// compile makes the plan of an agent instance. It reads nothing but its inputs and the parts.
func compile(parts *Parts, e *entry, in *inputs) *compiled {
	c := compiler{parts: parts, e: e, inst: e.instance(), in: in}
	c.out = &compiled{uses: in.uses, revision: in.revision, inputs: in.digest(parts)}
	c.identity()
	c.instructions()
	c.models()
	c.tools()
	c.deferred()
	c.delegates()
	c.collections()
	c.bounds()
	c.wiring()
	c.middleware() // sees all the rest of the plan
	if len(c.out.faults) > 0 {
		return c.out
	}
	var err error
	if c.out.body, c.out.hash, err = Encode(&c.plan); err != nil {
		c.fault("", "%s", err)
		return c.out
	}
	if len(c.out.body) > maxPlan {
		c.fault("", "its plan is %d bytes, at most %d", len(c.out.body), maxPlan)
		c.out.body = nil
		return c.out
	}
	// What turns are given is what a reader of the bytes would get.
	if err := json.Unmarshal(c.out.body, &c.out.plan); err != nil {
		c.fault("", "%s", err)
	}
	return c.out
}

func (c *compiler) fault(path, format string, args ...any) {
	c.out.faults = append(c.out.faults, c.e.parsed.Fault(path, format, args...))
}

func (c *compiler) identity() {
	c.plan = agent.Plan{
		Schema: agent.PlanSchema, Tenant: c.e.doc.Tenant, Agent: c.inst.Name, InstanceID: instanceID(c.e.doc.Tenant, c.inst),
		Node: c.inst.NodeID + "@" + c.inst.NodeVersion, Models: []agent.PlanModel{}, Tools: []agent.PlanTool{},
		Middleware: []agent.PlanMiddleware{}, RateLimits: c.inst.RateLimits, OutputSchema: c.inst.OutputSchema,
		Mode: c.inst.Mode,
	}
}

// instanceID is name@version of a shared agent, tenant/name@version of a tenant's.
func instanceID(tenant string, a *agent.AgentInstance) string {
	id := a.Name + "@" + cmp.Or(a.Version, "1")
	if tenant == agent.SharedTenant {
		return id
	}
	return tenant + "/" + id
}

// instructions checks the parameters against the agent's node and writes the system prompt.
func (c *compiler) instructions() {
	if c.in.node == nil {
		c.fault("node_id", "there is no node %s@%s", c.inst.NodeID, c.inst.NodeVersion)
		return
	}
	n := c.in.node.node()
	if n.Type != agent.NodeAgent {
		c.fault("node_id", "node %s@%s is a %s, no agent", n.NodeID, n.Version, n.Type)
		return
	}
	var ok bool
	if c.given, ok = c.parameters(c.in.node, c.inst.Parameters, "parameters"); !ok {
		return
	}
	if n.Ask != nil {
		c.ask(n)
	} else {
		c.system(n)
	}
	var err error
	if c.temperature, err = c.special(paramTemperature, 0, 2); err != nil {
		c.fault("parameters."+paramTemperature, "%s", err)
	}
	if c.plan.ReturnSteps, err = c.given.flag(paramReturnSteps); err != nil {
		c.fault("parameters."+paramReturnSteps, "%s", err)
	}
	for name, to := range map[string]*int{paramMaxTokens: &c.maxTokens, paramMaxIterations: &c.iterations} {
		if *to, _, err = special(c.given, name, 1, 1_000_000); err != nil {
			c.fault("parameters."+name, "%s", err)
		}
	}
}

// system writes the system prompt of an agent that prepares nothing by prompts.
func (c *compiler) system(n *agent.NodeDefinition) {
	if n.Prompt == "" && !c.given.isText(paramSystemMessage) {
		c.fault("parameters."+paramSystemMessage, "want a string: it is the system prompt")
	}
	var err error
	if c.plan.System, err = c.given.fill(n.Prompt); err != nil {
		c.fault("parameters", "%s", err)
	}
}

// special is a parameter as a pointer, nil when it is not given.
func (c *compiler) special(name string, low, high float64) (*float64, error) {
	value, ok, err := special(c.given, name, low, high)
	if !ok {
		return nil, err
	}
	return &value, nil
}

// parameters checks what is given against a node's properties and fills in their defaults.
func (c *compiler) parameters(node *entry, given json.RawMessage, path string) (parameters, bool) {
	properties, faults := node.properties()
	if len(faults) > 0 {
		c.fault(path, "the properties of node %s@%s cannot be used: %s", node.doc.Name, node.doc.Version, faults[0].Message)
		return parameters{}, false
	}
	filled, faults := properties.Parameters(given)
	if len(faults) > 0 {
		c.out.faults = append(c.out.faults, c.e.parsed.Within(path, faults)...)
		return parameters{}, false
	}
	p, err := newParameters(filled)
	if err != nil {
		c.fault(path, "%s", err)
		return parameters{}, false
	}
	return p, true
}

func join(path, below string) string {
	switch {
	case below == "":
		return path
	case path == "" || below[0] == '[':
		return path + below
	default:
		return path + "." + below
	}
}
