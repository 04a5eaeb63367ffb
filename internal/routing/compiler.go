package routing

import (
	"cmp"
	"fmt"
	"slices"

	"cel.dev/cel-go/cel"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/turnstone-run/turnstone/agent"
)

// maxPrograms is how many compiled expressions are cached, about 10 KB each.
const maxPrograms = 4096

// Compiler turns route tables into routers. It is safe for concurrent use.
type Compiler struct {
	env   *cel.Env
	cache *lru.Cache[string, *expression] // by source, so that tenants share the programs of a shared table

	bounds bounds
}

// New returns a Compiler.
func New() (*Compiler, error) {
	env, err := newEnv()
	if err != nil {
		return nil, fmt.Errorf("prepare route expressions: %w", err)
	}
	cache, err := lru.New[string, *expression](maxPrograms)
	if err != nil {
		return nil, fmt.Errorf("prepare route expressions: %w", err)
	}
	return &Compiler{env: env, cache: cache, bounds: defaultBounds()}, nil
}

// Check returns what is wrong with the conditions of a table. Paths are within the table, such as rules[2].when.expression.
func (c *Compiler) Check(t *agent.RouteTable) agent.Faults {
	_, found := c.table(t)
	return found
}

// Engine joins the tables of one tenant into a Router, which keeps no reference to them. Its error is [agent.CodeInvalid] for a table that
// [Compiler.Check] refuses.
func (c *Compiler) Engine(own, shared []*agent.RouteTable) (*Router, error) {
	r := &Router{bounds: c.bounds}
	for _, group := range [][]*agent.RouteTable{own, shared} {
		if err := c.join(r, group); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// join appends a group of tables in the order of evaluation.
func (c *Compiler) join(r *Router, group []*agent.RouteTable) error {
	tables := slices.SortedStableFunc(slices.Values(group), func(a, b *agent.RouteTable) int { return cmp.Compare(a.Name, b.Name) })
	var rules []rule
	for _, t := range tables {
		compiled, found := c.table(t)
		if err := found.Err(); err != nil {
			return fmt.Errorf("compile route table %q: %w", tableName(t), err)
		}
		rules = append(rules, compiled...)
		if t.DefaultAgent != "" {
			r.defaults = append(r.defaults, fallback{table: tableName(t), agent: t.DefaultAgent})
		}
	}
	slices.SortStableFunc(rules, func(a, b rule) int { return cmp.Compare(b.priority, a.priority) })
	r.rules = append(r.rules, rules...)
	return nil
}

// tableName returns the name of a table in decisions: tenant/name.
func tableName(t *agent.RouteTable) string {
	return cmp.Or(t.Tenant, agent.DefaultTenant) + "/" + t.Name
}
