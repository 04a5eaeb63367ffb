package routing

import (
	"cmp"
	"fmt"
	"slices"

	"cel.dev/cel-go/cel"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/turnstone-run/turnstone/agent"
)

// programs is how many compiled expressions are kept, about 10 KB each; the least recently used one goes first.
const programs = 4096

// Compiler turns route tables into routers. It is safe for concurrent use.
type Compiler struct {
	env   *cel.Env
	cache *lru.Cache[string, *expression] // by source: tenants that share a table, and a table compiled anew, share programs

	bounds bounds
}

// New makes a Compiler.
func New() (*Compiler, error) {
	env, err := newEnv()
	if err != nil {
		return nil, fmt.Errorf("prepare route expressions: %w", err)
	}
	cache, err := lru.New[string, *expression](programs)
	if err != nil {
		return nil, fmt.Errorf("prepare route expressions: %w", err)
	}
	return &Compiler{env: env, cache: cache, bounds: usual()}, nil
}

// Check says everything that keeps a table from working. The paths are within the table, such as rules[2].when.expression.
func (c *Compiler) Check(t *agent.RouteTable) agent.Faults {
	_, found := c.table(t)
	return found
}

// Engine joins the tables of one tenant into a Router. Tables that passed [Compiler.Check] give no error; of one that did not it is
// [agent.CodeInvalid]. The tables may be changed afterwards.
func (c *Compiler) Engine(own, shared []*agent.RouteTable) (*Router, error) {
	r := &Router{bounds: c.bounds}
	for _, group := range [][]*agent.RouteTable{own, shared} {
		if err := c.join(r, group); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// join appends a group of tables in the order in which they are evaluated.
func (c *Compiler) join(r *Router, group []*agent.RouteTable) error {
	tables := slices.SortedStableFunc(slices.Values(group), func(a, b *agent.RouteTable) int { return cmp.Compare(a.Name, b.Name) })
	var rules []rule
	for _, t := range tables {
		compiled, found := c.table(t)
		if err := found.Err(); err != nil {
			return fmt.Errorf("compile route table %q: %w", label(t), err)
		}
		rules = append(rules, compiled...)
		if t.DefaultAgent != "" {
			r.defaults = append(r.defaults, fallback{table: label(t), agent: t.DefaultAgent})
		}
	}
	slices.SortStableFunc(rules, func(a, b rule) int { return cmp.Compare(b.priority, a.priority) })
	r.rules = append(r.rules, rules...)
	return nil
}

// label is a table's name in decisions: tenant/name.
func label(t *agent.RouteTable) string {
	return cmp.Or(t.Tenant, agent.DefaultTenant) + "/" + t.Name
}
