package routing

import (
	"cmp"
	"fmt"
	"slices"

	"cel.dev/cel-go/cel"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/turnstone-run/turnstone/agent"
)

// maxPrograms is the maximum number of cached expressions, about 10 KB each.
const maxPrograms = 4096

// Compiler compiles route tables to routers. It is safe for concurrent use.
type Compiler struct {
	env   *cel.Env
	cache *lru.Cache[string, *expression] // by source, so that tenants share the expressions of shared tables

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

// Check returns the faults in the conditions of a table. Paths are relative to the table, such as rules[2].when.expression.
func (c *Compiler) Check(t *agent.RouteTable) agent.Faults {
	_, faults := c.compileTable(t)
	return faults
}

// Engine returns the router of a tenant, which keeps no reference to the tables. tenantTables take precedence over shared. Its error is
// [agent.CodeInvalid] if [Compiler.Check] returns faults for a table.
func (c *Compiler) Engine(tenantTables, shared []*agent.RouteTable) (*Router, error) {
	r := &Router{bounds: c.bounds}
	for _, group := range [][]*agent.RouteTable{tenantTables, shared} {
		if err := c.addTables(r, group); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// addTables appends the rules and default agents of a group of tables in the order of evaluation.
func (c *Compiler) addTables(r *Router, group []*agent.RouteTable) error {
	tables := slices.SortedStableFunc(slices.Values(group), func(a, b *agent.RouteTable) int { return cmp.Compare(a.Name, b.Name) })
	var rules []rule
	for _, t := range tables {
		compiled, faults := c.compileTable(t)
		if err := faults.Err(); err != nil {
			return fmt.Errorf("compile route table %q: %w", tableName(t), err)
		}
		rules = append(rules, compiled...)
		if t.DefaultAgent != "" {
			r.defaults = append(r.defaults, defaultAgent{table: tableName(t), agent: t.DefaultAgent})
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
