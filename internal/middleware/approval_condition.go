package middleware

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/celenv"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// Bounds of the conditions of human_in_the_loop, as those of routes are (internal/routing). A condition that passes one fails, and a
// person is asked.
const (
	maxConditionBytes = 4_096
	maxConditionSteps = 100_000 // CEL's measure of cost: a comparison is 1, reading ten characters is 1
	maxConditionTime  = 100 * time.Millisecond
	maxConditionArgs  = 1 << 20 // bytes of arguments
	maxReason         = 200     // bytes of CEL's words in a rule
	keptConditions    = 1_024   // compiled ones, about 10 KB each: chains are built for every call
)

// conditions compiles CEL. It is safe for concurrent use.
type conditions struct {
	env   func() (*cel.Env, error)
	cache func() (*lru.Cache[string, *condition], error)
}

func newConditions() conditions {
	return conditions{
		env:   sync.OnceValues(newConditionEnv),
		cache: sync.OnceValues(func() (*lru.Cache[string, *condition], error) { return lru.New[string, *condition](keptConditions) }),
	}
}

// newConditionEnv declares the variables of a condition. The parts of tool and user are separate variables, so that a misspelt one is found
// when the plan compiles.
func newConditionEnv() (*cel.Env, error) {
	return cel.NewEnv(append(
		celenv.Options(),
		cel.Variable("args", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("tool.name", cel.StringType),
		cel.Variable("tool.toolkit", cel.StringType),
		cel.Variable("tool.idempotent", cel.BoolType),
		cel.Variable("tool.inherently_safe", cel.BoolType),
		cel.Variable("tenant", cel.StringType),
		cel.Variable("user.id", cel.StringType),
		cel.Variable("user.role", cel.StringType),
		cel.Variable("effect_free", cel.BoolType),
	)...)
}

// condition is a compiled condition.
type condition struct {
	program cel.Program
	loops   bool // only comprehensions take long, and only they can be interrupted
}

// compile returns a condition. The field of its error is when.
func (c conditions) compile(source string) (*condition, error) {
	const field = "when"
	if strings.TrimSpace(source) == "" || len(source) > maxConditionBytes {
		return nil, agent.Invalid(field, "want a CEL expression of 1 to %d bytes", maxConditionBytes)
	}
	cache, err := c.cache()
	if err != nil {
		return nil, fmt.Errorf("prepare conditions: %w", err)
	}
	if known, ok := cache.Get(source); ok {
		return known, nil
	}
	env, err := c.env()
	if err != nil {
		return nil, fmt.Errorf("prepare conditions: %w", err)
	}
	checked, issues := env.Compile(source)
	if err := issues.Err(); err != nil {
		return nil, agent.Invalid(field, "%s", reasonOf(err))
	}
	if t := checked.OutputType(); t != cel.BoolType {
		return nil, agent.Invalid(field, "is of type %s, want bool: compare it, such as with == true", cel.FormatCELType(t))
	}
	program, err := env.Program(checked, append(celenv.ProgramOptions(maxConditionSteps, 10), celenv.MemoryOptions()...)...)
	if err != nil {
		return nil, agent.Invalid(field, "%s", reasonOf(err))
	}
	made := &condition{program: program, loops: celenv.HasLoops(checked)}
	cache.Add(source, made)
	return made, nil
}

// holds evaluates the condition on a call.
func (c *condition) holds(call *agent.GatedCall) (bool, error) {
	args, err := decodeArgs(call.Args)
	if err != nil {
		return false, err
	}
	facts := map[string]any{
		"args": args, "tool.name": call.Tool.Spec.Name, "tool.toolkit": call.Tool.Toolkit, "tool.idempotent": call.Tool.Spec.Idempotent,
		"tool.inherently_safe": call.Tool.Spec.InherentlySafe, "tenant": call.Tenant, "user.id": call.UserID, "user.role": call.UserRole,
		"effect_free": call.EffectFree,
	}
	out, err := c.evaluate(facts)
	if err != nil {
		return false, err
	}
	return out == types.True, nil
}

func (c *condition) evaluate(facts map[string]any) (any, error) {
	if !c.loops {
		out, _, err := c.program.Eval(facts)
		return out, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxConditionTime)
	defer cancel()
	out, _, err := c.program.ContextEval(ctx, facts)
	return out, err
}

// decodeArgs decodes arguments. Numbers are float64, as in routes. No arguments are an empty object. It refuses names that differ only in
// case, because a tool might read another one than the condition does.
func decodeArgs(raw []byte) (map[string]any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return map[string]any{}, nil
	}
	if len(raw) > maxConditionArgs {
		return nil, agent.Errorf(agent.CodeOverflow, "", "the arguments are %d bytes, at most %d are looked at", len(raw), maxConditionArgs)
	}
	args := map[string]any{}
	if err := strictjson.Decode(raw, &args); err != nil {
		return nil, err
	}
	if isAmbiguous(args) {
		return nil, agent.Invalid("args", "two names differ in nothing but upper and lower case")
	}
	return args, nil
}

// isAmbiguous reports whether an object in v has names that a decoder may take for one.
func isAmbiguous(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, isAmbiguous)
	case map[string]any:
		seen := make(map[string]bool, len(v))
		for name, inner := range v {
			folded := strings.ToLower(name)
			if seen[folded] || isAmbiguous(inner) {
				return true
			}
			seen[folded] = true
		}
	}
	return false
}

// reasonOf returns the text of a library's error on one line, shortened.
func reasonOf(err error) string {
	return clip.Bytes(strings.ReplaceAll(strings.Join(strings.Fields(err.Error()), " "), " (in container '')", ""), maxReason)
}
