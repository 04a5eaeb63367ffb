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

// maxPlan bounds a compiled plan, in bytes. The plan cache accepts twice as much.
const maxPlan = 4 << 20

// compiledPlan is an agent's plan, or what is wrong with the agent.
type compiledPlan struct {
	plan agent.Plan
	hash string // sha256:<hex> of body
	body []byte // canonical JSON

	inputs   string              // digest of all inputs of the plan
	uses     []agent.DocumentKey // all keys that were looked up, found or not
	revision int64               // the newest revision of the documents in uses
	faults   agent.Faults        // why there is no plan
	saved    atomic.Bool         // the plan is in the database under its hash
}

// err returns the faults as an error, nil if there is a plan.
func (c *compiledPlan) err() error { return c.faults.Err() }

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

// compiler makes the plan of one agent from its inputs.
type compiler struct {
	parts *Parts
	e     *entry
	inst  *agent.AgentInstance
	in    *inputs
	plan  agent.Plan
	given parameters // the instance's parameters, with defaults
	alone []claim    // models that invoke tools themselves

	temperature           *float64 // given by a parameter
	maxTokens, iterations int      // given by parameters; 0: not given

	out *compiledPlan
}

// compile returns the plan of an agent instance. It reads only its inputs and the parts.
func compile(parts *Parts, e *entry, in *inputs) *compiledPlan {
	c := compiler{parts: parts, e: e, inst: e.instance(), in: in}
	c.out = &compiledPlan{uses: in.uses, revision: in.revision, inputs: in.digest(parts)}
	c.setIdentity()
	c.setInstructions()
	c.addModels()
	c.addTools()
	c.describeSearch()
	c.addDelegates()
	c.addCollections()
	c.setLimits()
	c.checkWiring()
	c.addMiddleware() // checks against the rest of the plan
	if len(c.out.faults) > 0 {
		return c.out
	}
	var err error
	if c.out.body, c.out.hash, err = Encode(&c.plan); err != nil {
		c.addFault("", "%s", err)
		return c.out
	}
	if len(c.out.body) > maxPlan {
		c.addFault("", "the compiled plan has %d bytes, at most %d are allowed", len(c.out.body), maxPlan)
		c.out.body = nil
		return c.out
	}
	// The plan is decoded from its bytes, so that every process works with the same values.
	if err := json.Unmarshal(c.out.body, &c.out.plan); err != nil {
		c.addFault("", "%s", err)
	}
	return c.out
}

func (c *compiler) addFault(path, format string, args ...any) {
	c.out.faults = append(c.out.faults, c.e.parsed.Fault(path, format, args...))
}

// setIdentity begins the plan with what the agent's document says itself.
func (c *compiler) setIdentity() {
	c.plan = agent.Plan{
		Schema: agent.PlanSchema, Tenant: c.e.doc.Tenant, Agent: c.inst.Name, InstanceID: instanceID(c.e.doc.Tenant, c.inst),
		Node: c.inst.NodeID + "@" + c.inst.NodeVersion, Models: []agent.PlanModel{}, Tools: []agent.PlanTool{},
		Middleware: []agent.PlanMiddleware{}, RateLimits: c.inst.RateLimits, OutputSchema: c.inst.OutputSchema,
		Mode: c.inst.Mode,
	}
}

// instanceID returns name@version for a shared agent, tenant/name@version for a tenant's.
func instanceID(tenant string, a *agent.AgentInstance) string {
	id := a.Name + "@" + cmp.Or(a.Version, "1")
	if tenant == agent.SharedTenant {
		return id
	}
	return tenant + "/" + id
}

// setInstructions checks the parameters against the agent's node and sets the system prompt.
func (c *compiler) setInstructions() {
	if c.in.node == nil {
		c.addFault("node_id", "there is no node %s@%s", c.inst.NodeID, c.inst.NodeVersion)
		return
	}
	n := c.in.node.node()
	if n.Type != agent.NodeAgent {
		c.addFault("node_id", "node %s@%s is a %s, want an agent node", n.NodeID, n.Version, n.Type)
		return
	}
	var ok bool
	if c.given, ok = c.checkParameters(c.in.node, c.inst.Parameters, "parameters"); !ok {
		return
	}
	if n.Ask != nil {
		c.addAskPrompts(n)
	} else {
		c.setSystemPrompt(n)
	}
	var err error
	if c.temperature, err = c.optionalNumber(paramTemperature, 0, 2); err != nil {
		c.addFault("parameters."+paramTemperature, "%s", err)
	}
	if c.plan.ReturnSteps, err = c.given.boolean(paramReturnSteps); err != nil {
		c.addFault("parameters."+paramReturnSteps, "%s", err)
	}
	for name, to := range map[string]*int{paramMaxTokens: &c.maxTokens, paramMaxIterations: &c.iterations} {
		if *to, _, err = numberParameter(c.given, name, 1, 1_000_000); err != nil {
			c.addFault("parameters."+name, "%s", err)
		}
	}
}

// setSystemPrompt sets the system prompt of an agent without ask prompts.
func (c *compiler) setSystemPrompt(n *agent.NodeDefinition) {
	if n.Prompt == "" && !c.given.isText(paramSystemMessage) {
		c.addFault("parameters."+paramSystemMessage, "want a string: it is the system prompt")
	}
	var err error
	if c.plan.System, err = c.given.fillPrompt(n.Prompt); err != nil {
		c.addFault("parameters", "%s", err)
	}
}

// optionalNumber returns a parameter as a pointer, nil if it is not given.
func (c *compiler) optionalNumber(name string, low, high float64) (*float64, error) {
	value, ok, err := numberParameter(c.given, name, low, high)
	if !ok {
		return nil, err
	}
	return &value, nil
}

// checkParameters returns parameters that satisfy a node's properties, with defaults; false after a fault.
func (c *compiler) checkParameters(node *entry, given json.RawMessage, path string) (parameters, bool) {
	properties, faults := node.propertySchema()
	if len(faults) > 0 {
		c.addFault(path, "the properties of node %s@%s cannot be used: %s", node.doc.Name, node.doc.Version, faults[0].Message)
		return parameters{}, false
	}
	filled, faults := properties.Parameters(given)
	if len(faults) > 0 {
		c.out.faults = append(c.out.faults, c.e.parsed.Within(path, faults)...)
		return parameters{}, false
	}
	p, err := newParameters(filled)
	if err != nil {
		c.addFault(path, "%s", err)
		return parameters{}, false
	}
	return p, true
}

// join returns the path of a field within the value at another path: "tools" and "[0].name" give "tools[0].name".
func join(path, field string) string {
	switch {
	case field == "":
		return path
	case path == "" || field[0] == '[':
		return path + field
	default:
		return path + "." + field
	}
}
