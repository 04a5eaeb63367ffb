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

// compiledPlan is the plan of an agent, or the faults of the agent.
type compiledPlan struct {
	plan agent.Plan
	hash string // sha256:<hex> of body
	body []byte // canonical JSON

	inputs    string              // digest of all inputs of the plan
	inputKeys []agent.DocumentKey // every key that was looked up, found or not
	revision  int64               // the newest revision of the inputs
	faults    agent.Faults        // why there is no plan
	saved     atomic.Bool         // the plan is in the database under its hash
}

// Encode returns the canonical JSON of a plan (RFC 8785) and its hash "sha256:<hex>". Equal plans have equal hashes.
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
	entry *entry
	inst  *agent.AgentInstance
	in    *inputs
	plan  agent.Plan

	params                parameters     // of the instance, including defaults
	temperature           *float64       // from a parameter; may be nil
	maxTokens, iterations int            // from parameters; 0 if absent
	selfInvoking          []selfInvoking // models that claim to invoke tools themselves

	out *compiledPlan
}

// newCompiler returns a compiler that adds its faults to the document of e.
func newCompiler(parts *Parts, e *entry, in *inputs) *compiler {
	return &compiler{parts: parts, entry: e, in: in, out: &compiledPlan{}}
}

// compile returns the plan of an agent instance. The result depends only on the inputs and the parts.
func compile(parts *Parts, e *entry, in *inputs) *compiledPlan {
	c := newCompiler(parts, e, in)
	c.inst = e.instance()
	c.out = &compiledPlan{inputKeys: in.keys, revision: in.revision, inputs: in.digest(parts)}
	c.setIdentity()
	c.setInstructions()
	c.addModels()
	c.addTools()
	c.describeSearch()
	c.addDelegates()
	c.addCollections()
	c.setLimits()
	c.checkWiring()
	c.addMiddleware() // last, because it is checked against the plan
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
	// Decoding the plan from its bytes gives every process the same values.
	if err := json.Unmarshal(c.out.body, &c.out.plan); err != nil {
		c.addFault("", "%s", err)
	}
	return c.out
}

func (c *compiler) addFault(path, format string, args ...any) {
	c.out.faults = append(c.out.faults, c.entry.parsed.Fault(path, format, args...))
}

// setIdentity sets the fields of the plan that come from the agent's document alone.
func (c *compiler) setIdentity() {
	c.plan = agent.Plan{
		Schema: agent.PlanSchema, Tenant: c.entry.doc.Tenant, Agent: c.inst.Name, InstanceID: instanceID(c.entry.doc.Tenant, c.inst),
		Node: c.inst.NodeID + "@" + c.inst.NodeVersion, Models: []agent.PlanModel{}, Tools: []agent.PlanTool{},
		Middleware: []agent.PlanMiddleware{}, RateLimits: c.inst.RateLimits, OutputSchema: c.inst.OutputSchema,
		Mode: c.inst.Mode,
	}
}

// instanceID returns name@version for a shared agent, tenant/name@version for an agent of a tenant.
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
	if c.params, ok = c.checkParameters(c.in.node, c.inst.Parameters, "parameters"); !ok {
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
	if c.plan.ReturnSteps, err = c.params.boolean(paramReturnSteps); err != nil {
		c.addFault("parameters."+paramReturnSteps, "%s", err)
	}
	for name, field := range map[string]*int{paramMaxTokens: &c.maxTokens, paramMaxIterations: &c.iterations} {
		if *field, _, err = numberParameter(c.params, name, 1, 1_000_000); err != nil {
			c.addFault("parameters."+name, "%s", err)
		}
	}
}

// setSystemPrompt sets the system prompt of an agent without ask prompts.
func (c *compiler) setSystemPrompt(n *agent.NodeDefinition) {
	if n.Prompt == "" && !c.params.isText(paramSystemMessage) {
		c.addFault("parameters."+paramSystemMessage, "want a string: it is the system prompt")
	}
	var err error
	if c.plan.System, err = c.params.fillPrompt(n.Prompt); err != nil {
		c.addFault("parameters", "%s", err)
	}
}

// optionalNumber returns a pointer to a number parameter, nil if it is absent.
func (c *compiler) optionalNumber(name string, low, high float64) (*float64, error) {
	value, ok, err := numberParameter(c.params, name, low, high)
	if !ok {
		return nil, err
	}
	return &value, nil
}

// checkParameters checks parameters against the properties of a node and returns them with defaults; false after a fault.
func (c *compiler) checkParameters(node *entry, raw json.RawMessage, path string) (parameters, bool) {
	properties, faults := node.propertySchema()
	if len(faults) > 0 {
		c.addFault(path, "the properties of node %s@%s cannot be used: %s", node.doc.Name, node.doc.Version, faults[0].Message)
		return parameters{}, false
	}
	filled, faults := properties.Parameters(raw)
	if len(faults) > 0 {
		c.out.faults = append(c.out.faults, c.entry.parsed.Within(path, faults)...)
		return parameters{}, false
	}
	p, err := newParameters(filled)
	if err != nil {
		c.addFault(path, "%s", err)
		return parameters{}, false
	}
	return p, true
}
